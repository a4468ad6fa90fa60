// SPDX-License-Identifier: Apache-2.0
// Tables, token files and pictures: what is written by hand here comes back, and damaged files say what is wrong.
#include <tenon/data/csv.h>
#include <tenon/data/images.h>
#include <tenon/data/loader.h>
#include <tenon/data/tokens.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;
namespace fs = std::filesystem;

namespace {
/// A folder that goes with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("tenon_readers_" + std::to_string(tenon::testing::seed()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, std::string_view content) const {
    std::ofstream(path / name, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return (path / name).string();
  }
  std::string at(const std::string& name) const { return (path / name).string(); }
};
}  // namespace

TEST_CASE("read_csv: numbers, names, quotes, blanks, missing values") {
  const Folder folder;
  const std::string path =
      folder.file("a.csv", "# measured\r\nx, \"y, unit\" ,z\r\n1,-2.5,3e2\r\n\r\n+4,NA,\n\"7\",8,9");
  const data::Csv csv = data::read_csv(path, {.header = true});
  CHECK(csv.names == std::vector<std::string>{"x", "y, unit", "z"});
  CHECK(csv.values.sizes() == IntArrayRef({3, 3}));
  const std::vector<float> v = csv.values.to_vector<float>();
  CHECK(std::vector<float>(v.begin(), v.begin() + 4) == std::vector<float>{1, -2.5, 300, 4});
  CHECK((std::isnan(v[4]) && std::isnan(v[5])));
  CHECK(v[6] == 7);
  const data::Csv chosen = data::read_csv(path, {.header = true, .dtype = kFloat64, .columns = {2, 0}});
  CHECK(chosen.names == std::vector<std::string>{"z", "x"});
  CHECK(chosen.values.to_vector<double>()[1] == 1);
  const data::Csv blanks = data::read_csv(folder.file("b.txt", "  1\t 2\n3 4 \n"), {.delimiter = ' ', .dtype = kInt64});
  CHECK(blanks.values.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(data::read_csv(folder.file("empty.csv", "")).values.sizes() == IntArrayRef({0, 0}));
  // A line longer than any buffer.
  std::string longer;
  for (int i = 0; i < 20000; ++i) longer += (i ? "," : "") + std::to_string(i);
  CHECK(data::read_csv(folder.file("long.csv", longer), {.dtype = kInt64}).values.to_vector<int64_t>()[19999] == 19999);
}

TEST_CASE("read_csv says where a file is damaged") {
  const Folder folder;
  CHECK(contains(error_of<IoError>([&] { data::read_csv(folder.at("none.csv")); }), "none.csv"));
  CHECK(contains(error_of<IoError>([&] { data::read_csv(folder.file("a.csv", "1,2\n3,x\n")); }), "line 2, column 1"));
  CHECK(contains(error_of<IoError>([&] { data::read_csv(folder.file("b.csv", "1,2\n3\n")); }),
                 "line 2: expected 2 fields"));
  CHECK(contains(error_of<IoError>([&] { data::read_csv(folder.file("c.csv", "1,\n"), {.dtype = kInt64}); }),
                 "column 1"));
  CHECK(contains(error_of<ValueError>([&] { data::read_csv(folder.file("d.csv", "1,2\n"), {.columns = {2}}); }),
                 "columns"));
  CHECK(contains(error_of<DtypeError>([&] { data::read_csv(folder.at("a.csv"), {.dtype = kInt8}); }), "dtype"));
}

TEST_CASE("map_tokens and TokenDataset: sequences and what follows them") {
  const Folder folder;
  std::string bytes = "HEAD";
  for (int i = 0; i < 11; ++i) {
    const int value = 65530 + i < 65536 ? 65530 + i : i;  // beyond int16
    bytes += static_cast<char>(value & 255), bytes += static_cast<char>(value >> 8);
  }
  Tensor tokens = data::map_tokens(folder.file("t.bin", bytes), kInt16, 4);
  CHECK(tokens.sizes() == IntArrayRef({11}));
  const data::TokenDataset dataset(tokens, 4, 3);
  CHECK(dataset.size() == 3);  // begins 0, 3, 6
  CHECK(dataset.get(0)[0].to_vector<int64_t>() == std::vector<int64_t>{65530, 65531, 65532, 65533});
  CHECK(dataset.get(2)[1].to_vector<int64_t>() == std::vector<int64_t>{7, 8, 9, 10});
  CHECK(data::TokenDataset(tokens, 5).size() == 2);
  data::DataLoader loader(dataset, {.batch_size = 2, .workers = 2});
  CHECK(loader.begin()->at(0).sizes() == IntArrayRef({2, 4}));
  tokens = {};
  CHECK(data::map_tokens(folder.file("none.bin", ""), kInt32).numel() == 0);
  CHECK(contains(error_of<IoError>([&] { data::map_tokens(folder.at("missing"), kInt32); }), "missing"));
  CHECK(contains(error_of<IoError>([&] { data::map_tokens(folder.file("odd.bin", "abc"), kInt16); }), "3 bytes"));
  CHECK(contains(error_of<IoError>([&] { data::map_tokens(folder.path.string(), kInt16); }), "tenon_readers"));
  CHECK(contains(error_of<DtypeError>([&] { data::map_tokens(folder.at("t.bin"), kFloat32); }), "integer"));
  CHECK(contains(error_of<ValueError>([&] { data::TokenDataset(arange(5), 5); }), "more than the length"));
}

TEST_CASE("pictures come back, and folders are classes") {
  const Folder folder;
  Tensor image;
  try {
    image = randint(0, 256, {3, 5, 7}, TensorOptions(kUInt8));
    data::write_png(folder.at("probe.png"), image);
  } catch (const LibraryError& e) {
    tenon::testing::note_skip(e.what());
    return;
  }
  CHECK(data::read_png(folder.at("probe.png")).to_vector<uint8_t>() == image.to_vector<uint8_t>());
  const Tensor grey = data::read_png(folder.at("probe.png"), 1);
  CHECK(grey.sizes() == IntArrayRef({1, 5, 7}));
  const Tensor alpha = data::read_png(folder.at("probe.png"), 4);
  CHECK(alpha.select(0, 3).eq(255).all().item<bool>());
  for (const char* name : {"dogs", "cats"}) {
    fs::create_directories(folder.path / name);
    for (const char* file : {"b.png", "a.PNG"})
      data::write_png((folder.path / name / file).string(), zeros({1, 4, 4}, TensorOptions(kUInt8)));
    folder.file(std::string(name) + "/notes.txt", "no picture");
  }
  const data::ImageFolder dataset(folder.path.string());
  CHECK(dataset.classes() == std::vector<std::string>{"cats", "dogs"});
  CHECK(dataset.size() == 4);
  CHECK(contains(dataset.path(0), "a.PNG"));
  data::DataLoader loader(dataset, {.batch_size = 4, .workers = 2});
  const data::Batch batch = *loader.begin();
  CHECK(batch[0].sizes() == IntArrayRef({4, 3, 4, 4}));
  CHECK(batch[1].to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1, 1});
  CHECK(contains(error_of<IoError>([&] { data::read_png(folder.file("x.png", "no png")); }), "x.png"));
  CHECK(contains(error_of<IoError>([&] { data::read_png(folder.at("missing.png")); }), "missing.png"));
  CHECK(contains(error_of<IoError>([&] { data::ImageFolder((folder.path / "cats").string()); }), "found none"));
  CHECK(contains(error_of<ValueError>([&] { data::read_png(folder.at("probe.png"), 2); }), "channels"));
  CHECK(contains(error_of<ShapeError>([&] {
                   data::write_png(folder.at("y.png"), zeros({2, 4, 4}, TensorOptions(kUInt8)));
                 }),
                 "channels"));
}
