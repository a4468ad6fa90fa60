// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/images.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <dlfcn.h>
#include <algorithm>
#include <filesystem>
#if __has_include(<png.h>)
#include <png.h>
#define TENON_PNG 1
#endif

namespace tenon::data {
#if defined(TENON_PNG)
namespace {

// libpng's simplified functions.
struct Png {
  decltype(&png_image_begin_read_from_file) begin_read;
  decltype(&png_image_finish_read) finish_read;
  decltype(&png_image_write_to_file) write;
  decltype(&png_image_free) free;
};
const Png& png() {
  static const Png functions = [] {
    void* library = dlopen("libpng16.so.16", RTLD_NOW | RTLD_LOCAL);
    TENON_CHECK(library, LibraryError, "read_png: libpng could not be opened: ", dlerror());
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
      TENON_CHECK(to, LibraryError, "read_png: this libpng has no ", name);
    };
    Png f{};
    find(f.begin_read, "png_image_begin_read_from_file");
    find(f.finish_read, "png_image_finish_read");
    find(f.write, "png_image_write_to_file");
    find(f.free, "png_image_free");
    return f;
  }();
  return functions;
}
struct Picture {
  png_image image{};
  Picture() { image.version = PNG_IMAGE_VERSION; }
  ~Picture() { png().free(&image); }
  Picture(const Picture&) = delete;
};
constexpr png_uint_32 kFormats[] = {0, PNG_FORMAT_GRAY, 0, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};

}  // namespace

Tensor read_png(const std::string& path, int channels) {
  TENON_CHECK(channels == 0 || channels == 1 || channels == 3 || channels == 4, ValueError,
              "read_png: channels: expected 0, 1, 3 or 4, got ", channels);
  const Png& functions = png();
  Picture p;
  TENON_CHECK(functions.begin_read(&p.image, path.c_str()), IoError, "read_png: ", path, ": ", p.image.message);
  if (channels == 0) channels = p.image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
  p.image.format = kFormats[channels];
  const auto height = static_cast<int64_t>(p.image.height), width = static_cast<int64_t>(p.image.width);
  Tensor pixels = empty({height, width, channels}, TensorOptions(kUInt8));
  const png_color black{0, 0, 0};  // behind what is transparent
  TENON_CHECK(functions.finish_read(&p.image, &black, pixels.data_ptr(), 0, nullptr), IoError, "read_png: ", path, ": ",
              p.image.message);
  return pixels.permute({2, 0, 1}).contiguous();
}

void write_png(const std::string& path, const Tensor& given) {
  TENON_CHECK(given.defined() && given.dtype() == kUInt8 && (given.dim() == 2 || given.dim() == 3), ValueError,
              "write_png: image: expected uint8 of two or three dimensions");
  const Tensor image = (given.dim() == 2 ? given.unsqueeze(0) : given).to(kCPU);
  const int64_t channels = image.size(0);
  TENON_CHECK((channels == 1 || channels == 3 || channels == 4) && image.numel() > 0, ShapeError,
              "write_png: image: expected 1, 3 or 4 channels and at least one pixel, got sizes ", image.sizes());
  const Png& functions = png();
  const Tensor pixels = image.permute({1, 2, 0}).contiguous();
  Picture p;
  p.image.height = static_cast<png_uint_32>(image.size(1)), p.image.width = static_cast<png_uint_32>(image.size(2));
  p.image.format = kFormats[channels];
  TENON_CHECK(functions.write(&p.image, path.c_str(), 0, pixels.data_ptr(), 0, nullptr), IoError, "write_png: ", path,
              ": ", p.image.message);
}
#else
Tensor read_png(const std::string&, int) {
  TENON_CHECK(false, LibraryError, "read_png: tenon was built without libpng's header (libpng-dev)");
}
void write_png(const std::string&, const Tensor&) {
  TENON_CHECK(false, LibraryError, "write_png: tenon was built without libpng's header (libpng-dev)");
}
#endif

ImageFolder::ImageFolder(const std::string& folder, int channels) : channels_(channels) {
  namespace fs = std::filesystem;
  const auto sorted = [](const fs::path& in) {
    std::vector<fs::path> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(in, error)) all.push_back(entry.path());
    TENON_CHECK(!error, IoError, "ImageFolder: cannot read ", in.string(), ": ", error.message());
    std::sort(all.begin(), all.end());
    return all;
  };
  for (const fs::path& entry : sorted(folder)) {
    if (!fs::is_directory(entry)) continue;
    for (const fs::path& file : sorted(entry)) {
      std::string extension = file.extension().string();
      for (char& c : extension) c = static_cast<char>(c | 0x20);
      if (extension != ".png") continue;
      paths_.push_back(file.string());
      labels_.push_back(static_cast<int64_t>(classes_.size()));
    }
    classes_.push_back(entry.filename().string());
  }
  TENON_CHECK(!paths_.empty(), IoError, "ImageFolder: ", folder, ": expected folders of PNG files, found none");
}
Batch ImageFolder::get(int64_t index) const {
  return {read_png(path(index), channels_), full({}, labels_[static_cast<std::size_t>(index)], TensorOptions(kInt64))};
}

}  // namespace tenon::data
