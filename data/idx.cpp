// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/idx.h>
#include <tenon/ops/factory.h>

#include <zlib.h>

#include <unistd.h>

namespace tenon::data {
namespace {

// gzread hands plain files through as they are.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    TENON_CHECK(file_, IoError, "read_idx: cannot open ", path,
                access(path.c_str(), F_OK) == 0 ? "" : ": no such file");
    gzbuffer(file_, 1 << 17);
  }
  ~Reader() { gzclose(file_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void read(void* to, int64_t bytes, const char* what) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const int n = gzread(file_, at, static_cast<unsigned>(bytes < (1 << 30) ? bytes : 1 << 30));
      int code = 0;
      const char* text = gzerror(file_, &code);
      TENON_CHECK(n > 0, IoError, "read_idx: ", path_, " ends within its ", what, ", ", bytes, " bytes are missing",
                  code < 0 ? ": " : "", code < 0 ? text : "");
      at += n;
      bytes -= n;
    }
  }
  bool at_end() {
    char more;
    return gzread(file_, &more, 1) == 0;
  }

 private:
  std::string path_;
  gzFile file_;
};

// Elements are big-endian.
void swap_bytes(char* p, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i, p += width)
    for (int64_t b = 0; b < width / 2; ++b) std::swap(p[b], p[width - 1 - b]);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Reader in(path);
  unsigned char magic[4];
  in.read(magic, 4, "header");
  TENON_CHECK(magic[0] == 0 && magic[1] == 0, IoError, "read_idx: ", path,
              " is not an IDX file: it does not begin with two zero bytes");
  DType t = DType::undefined;
  switch (magic[2]) {
    case 0x08:
      t = kUInt8;
      break;
    case 0x09:
      t = kInt8;
      break;
    case 0x0B:
      t = kInt16;
      break;
    case 0x0C:
      t = kInt32;
      break;
    case 0x0D:
      t = kFloat32;
      break;
    case 0x0E:
      t = kFloat64;
      break;
    default:
      break;
  }
  TENON_CHECK(t != DType::undefined, IoError, "read_idx: ", path, ": unknown element type ",
              static_cast<int>(magic[2]));
  TENON_CHECK(magic[3] <= kMaxDims, IoError, "read_idx: ", path, ": ", static_cast<int>(magic[3]),
              " dimensions are too many");
  DimVector sizes;
  for (int d = 0; d < magic[3]; ++d) {
    unsigned char b[4];
    in.read(b, 4, "header");
    sizes.push_back(int64_t{b[0]} << 24 | int64_t{b[1]} << 16 | int64_t{b[2]} << 8 | int64_t{b[3]});
  }
  // A damaged header must not lead to a huge allocation: no IDX set is beyond this.
  TENON_CHECK(checked_numel(sizes, "read_idx") <= int64_t{1} << 36, IoError, "read_idx: ", path, ": implausible sizes ",
              sizes);
  Tensor out = empty(sizes, t);
  in.read(out.data_ptr(), out.nbytes(), "elements");
  TENON_CHECK(in.at_end(), IoError, "read_idx: ", path, " holds more than its header says");
  if (out.itemsize() > 1) swap_bytes(static_cast<char*>(out.data_ptr()), out.numel(), out.itemsize());
  return out;
}

FashionMnist read_fashion_mnist(const std::string& folder) {
  const auto read = [&](const std::string& stem, int64_t rank) {
    std::string path = folder + "/" + stem;
    if (access(path.c_str(), F_OK) != 0) path += ".gz";
    TENON_CHECK(access(path.c_str(), F_OK) == 0, IoError, "read_fashion_mnist: ", folder, " has no ", stem, "[.gz]; ",
                "on Debian and Ubuntu install dataset-fashion-mnist");
    Tensor t = read_idx(path);
    TENON_CHECK(t.dtype() == kUInt8 && t.dim() == rank, IoError, "read_fashion_mnist: ", path, ": expected uint8 of ",
                rank, " dimensions, got ", t.dtype(), " of sizes ", t.sizes());
    return t;
  };
  FashionMnist set{{read("train-images-idx3-ubyte", 3), read("train-labels-idx1-ubyte", 1)},
                   {read("t10k-images-idx3-ubyte", 3), read("t10k-labels-idx1-ubyte", 1)}};
  for (const LabelledImages* part : {&set.train, &set.test})
    TENON_CHECK(part->images.size(0) == part->labels.size(0), IoError, "read_fashion_mnist: ", folder, ": ",
                part->images.size(0), " images but ", part->labels.size(0), " labels");
  return set;
}

}  // namespace tenon::data
