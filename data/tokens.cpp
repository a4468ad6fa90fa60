// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/tokens.h>
#include <tenon/ops/bitwise.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace tenon::data {

Tensor map_tokens(const std::string& path, DType dtype, int64_t skip_bytes) {
  TENON_CHECK(is_integral(dtype) && dtype != kBool, DtypeError, "map_tokens: dtype: expected an integer dtype, got ",
              dtype);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  TENON_CHECK(file >= 0, IoError, "map_tokens: cannot open ", path, ": ", std::strerror(errno));
  struct stat status {};
  const bool known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto bytes = static_cast<int64_t>(status.st_size), width = item_size(dtype);
  const bool fits =
      known && skip_bytes >= 0 && skip_bytes <= bytes && (bytes - skip_bytes) % width == 0 && skip_bytes % width == 0;
  void* memory = MAP_FAILED;
  int error = 0;
  if (fits && bytes > skip_bytes) {
    memory =
        mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    error = errno;
  }
  close(file);
  TENON_CHECK(fits, IoError, "map_tokens: ", path, known ? " has " : " is no file with a size; it has ", bytes,
              " bytes; expected ", skip_bytes, " and a multiple of ", width);
  if (bytes == skip_bytes) return empty({0}, TensorOptions(dtype));
  TENON_CHECK(memory != MAP_FAILED, IoError, "map_tokens: cannot map ", path, ": ", std::strerror(error));
  return from_blob(
      static_cast<char*>(memory) + skip_bytes, {(bytes - skip_bytes) / width}, {1},
      [memory, bytes](void*) { munmap(memory, static_cast<std::size_t>(bytes)); }, TensorOptions(dtype));
}

TokenDataset::TokenDataset(Tensor tokens, int64_t length, int64_t stride)
    : tokens_(static_cast<Tensor&&>(tokens)), length_(length), stride_(stride == 0 ? length : stride) {
  TENON_CHECK(tokens_.defined() && tokens_.dim() == 1 && is_integral(tokens_.dtype()), ValueError,
              "TokenDataset: tokens: expected one dimension of integers");
  TENON_CHECK(length > 0 && stride_ > 0, ValueError, "TokenDataset: length and stride must be above 0");
  TENON_CHECK(tokens_.size(0) > length, ValueError, "TokenDataset: tokens: expected more than the length ", length,
              ", got ", tokens_.size(0));
}
int64_t TokenDataset::size() const { return (tokens_.size(0) - length_ - 1) / stride_ + 1; }
Batch TokenDataset::get(int64_t index) const {
  const int64_t begin = index * stride_;
  Tensor all = tokens_.slice(0, begin, begin + length_ + 1).to(kInt64);
  if (tokens_.dtype() == kInt16) all = bitwise_and(all, 0xFFFF);
  return {all.slice(0, 0, length_), all.slice(0, 1, length_ + 1)};
}

}  // namespace tenon::data
