// SPDX-License-Identifier: Apache-2.0
// Tables of numbers in text: one row a line, columns apart by a comma or another character (RFC 4180 for numbers).
#pragma once

#include <tenon/core/tensor.h>

#include <string>

namespace tenon::data {

struct CsvOptions {
  char delimiter = ',';               ///< ' ' stands for any run of blanks
  bool header = false;                ///< the first line names the columns
  DType dtype = kFloat32;             ///< float64, float32 or int64
  std::vector<int64_t> columns = {};  ///< which to keep, in this order; all when empty
};
struct Csv {
  Tensor values;                   ///< [rows, columns] on the CPU
  std::vector<std::string> names;  ///< of the kept columns; empty without a header
};
/// Reads a file, gzip-compressed or plain. Empty fields, "nan" and "NA" are NaN (an error for int64); blank lines and lines
/// that begin with # are skipped; fields may be quoted. IoError naming file and line: a missing file, a field that is no
/// number, a row of another length.
TENON_API Csv read_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace tenon::data
