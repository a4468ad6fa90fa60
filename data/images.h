// SPDX-License-Identifier: Apache-2.0
// Pictures: PNG files, and folders of them by class. They are read by libpng, which is opened on first use.
#pragma once

#include <tenon/data/dataset.h>

#include <string>

namespace tenon::data {

/// The picture as uint8 [channels, height, width] on the CPU: channels 1 (grey), 3 (RGB) or 4 (RGBA), 0: as the file is, without
/// an alpha channel. Palettes and 16-bit files are converted to 8 bits. IoError naming the file and what is wrong with it;
/// LibraryError without libpng.
TENON_API Tensor read_png(const std::string& path, int channels = 0);
/// Writes uint8 [channels, height, width] or [height, width].
TENON_API void write_png(const std::string& path, const Tensor& image);

/// folder/<class>/<picture>.png: sample i is a picture (read when asked for) and the number of its class, an int64. Classes and
/// pictures are sorted by name. IoError when there are none.
class TENON_API ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const std::string& folder, int channels = 3);
  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  Batch get(int64_t index) const override;
  const std::vector<std::string>& classes() const { return classes_; }
  const std::string& path(int64_t index) const { return paths_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<std::string> classes_, paths_;
  std::vector<int64_t> labels_;
  int channels_;
};

}  // namespace tenon::data
