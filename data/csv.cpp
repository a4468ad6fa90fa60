// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/csv.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <zlib.h>

#include <charconv>
#include <limits>
#include <string_view>

namespace tenon::data {
namespace {

// Lines of a file, whatever its line ends; gzread hands plain files through.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    TENON_CHECK(file_, IoError, "read_csv: cannot open ", path);
    gzbuffer(file_, 1 << 17);
  }
  ~Lines() { gzclose(file_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool next(std::string& line) {
    line.clear();
    char buffer[1 << 14];
    while (gzgets(file_, buffer, sizeof buffer)) {
      line += buffer;
      if (line.ends_with('\n')) break;
    }
    int code = 0;
    const char* text = gzerror(file_, &code);
    TENON_CHECK(code >= 0 || code == Z_BUF_ERROR, IoError, "read_csv: ", path_, ": ", text);
    const bool any = !line.empty();
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    ++number_;
    return any;
  }
  int64_t number() const { return number_; }

 private:
  const std::string& path_;
  gzFile file_;
  int64_t number_ = 0;
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

void split(std::string_view line, char delimiter, std::vector<std::string_view>& fields) {
  fields.clear();
  if (delimiter == ' ') {
    for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
      const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
      fields.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    return;
  }
  for (std::size_t begin = 0;;) {
    std::size_t end = begin;
    for (bool quoted = false; end < line.size() && (quoted || line[end] != delimiter); ++end)
      if (line[end] == '"') quoted = !quoted;
    std::string_view field = trimmed(line.substr(begin, end - begin));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
      field = trimmed(field.substr(1, field.size() - 2));
    fields.push_back(field);
    if (end >= line.size()) return;
    begin = end + 1;
  }
}

template <class T>
bool parse(std::string_view field, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (field.empty() || field == "NA" || field == "nan" || field == "NaN" || field == "NAN") {
      value = std::numeric_limits<T>::quiet_NaN();
      return true;
    }
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size() && !field.empty();
}

template <class T>
Csv read_as(const std::string& path, const CsvOptions& o) {
  Lines lines(path);
  Csv csv;
  std::vector<T> values;
  std::vector<std::string_view> fields;
  std::vector<int64_t> columns = o.columns;
  std::string line;
  std::size_t width = 0;
  bool named = !o.header;
  int64_t rows = 0;
  while (lines.next(line)) {
    if (trimmed(line).empty() || line.starts_with('#')) continue;
    split(line, o.delimiter, fields);
    if (width == 0) {
      width = fields.size();
      for (std::size_t i = 0; o.columns.empty() && i < width; ++i) columns.push_back(static_cast<int64_t>(i));
      for (const int64_t c : columns)
        TENON_CHECK(c >= 0 && c < static_cast<int64_t>(width), ValueError, "read_csv: columns: ", path, " has ", width,
                    " columns, got column ", c);
    }
    TENON_CHECK(fields.size() == width, IoError, "read_csv: ", path, " line ", lines.number(), ": expected ", width,
                " fields, got ", fields.size());
    if (!named) {
      for (const int64_t c : columns) csv.names.emplace_back(fields[static_cast<std::size_t>(c)]);
      named = true;
      continue;
    }
    for (const int64_t c : columns) {
      T value{};
      const std::string_view field = fields[static_cast<std::size_t>(c)];
      TENON_CHECK(parse(field, value), IoError, "read_csv: ", path, " line ", lines.number(), ", column ", c,
                  ": expected a number, got \"", field, "\"");
      values.push_back(value);
    }
    ++rows;
  }
  csv.values = from_vector(std::move(values)).view({rows, static_cast<int64_t>(columns.size())});
  return csv;
}

}  // namespace

Csv read_csv(const std::string& path, const CsvOptions& o) {
  TENON_CHECK(o.dtype == kFloat32 || o.dtype == kFloat64 || o.dtype == kInt64, DtypeError,
              "read_csv: dtype: expected float32, float64 or int64, got ", o.dtype);
  if (o.dtype == kInt64) return read_as<int64_t>(path, o);
  return o.dtype == kFloat64 ? read_as<double>(path, o) : read_as<float>(path, o);
}

}  // namespace tenon::data
