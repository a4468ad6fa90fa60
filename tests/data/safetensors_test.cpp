// SPDX-License-Identifier: Apache-2.0
// Safetensors files: what is saved comes back, and damaged files are refused with IoError instead of a crash.
#include "tests/support/catch.h"

#include <tenon/data/safetensors.h>
#include <tenon/tenon.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace tenon;  // NOLINT
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

struct TemporaryFile {
  std::string path;
  TemporaryFile() {
    char name[] = "/tmp/tenon_safetensors_XXXXXX";
    const int descriptor = mkstemp(name);
    REQUIRE(descriptor >= 0);
    close(descriptor);
    path = name;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  void write(const std::string& bytes) const {
    std::FILE* f = std::fopen(path.c_str(), "wb");
    REQUIRE(f);
    REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size());
    std::fclose(f);
  }
};

std::string file_of(const std::string& header, int64_t data_bytes) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + std::string(static_cast<std::size_t>(data_bytes), '\0');
}

std::string entry(const std::string& name, const std::string& shape, const std::string& range) {
  return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + range + "}";
}

}  // namespace

TEST_CASE("safetensors: tensors of any layout come back") {
  const TemporaryFile file;
  const Tensor grid = arange(6).reshape({2, 3}).to(kFloat32);
  data::save_safetensors(file.path, {{"quote \" slash \\ line \n", grid.t()},
                                     {"wide", ones({1}).expand({3})},
                                     {"none", empty({0, 2})},
                                     {"one", full({}, 7, kInt64)}});
  const auto loaded = data::load_safetensors(file.path);
  REQUIRE(loaded.size() == 4);
  for (const auto& [name, t] : loaded) {
    if (name == "quote \" slash \\ line \n")
      CHECK(t.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
    else if (name == "wide")
      CHECK(t.to_vector<float>() == std::vector<float>{1, 1, 1});
    else if (name == "none")
      CHECK(t.sizes() == IntArrayRef({0, 2}));
    else
      CHECK((name == "one" && t.dim() == 0 && t.item<int64_t>() == 7));
  }
  CHECK_THROWS_AS(data::save_safetensors(file.path, {{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(data::save_safetensors(file.path, {{"a", grid}, {"a", grid}}), ValueError);
  CHECK_THROWS_AS(data::save_safetensors(file.path, {{"__metadata__", grid}}), ValueError);
  CHECK_THROWS_AS(data::save_safetensors("/nonexistent/x", {{"a", grid}}), IoError);
}

TEST_CASE("safetensors: damaged files are refused") {
  const TemporaryFile file;
  const std::string good = entry("a", "[1]", "[0,4]");
  const std::string files[] = {
      "",
      "short",
      std::string(8, '\xff') + "{}",
      file_of("", 0),
      file_of("hello", 0),
      file_of("{\"a", 0),
      file_of("{\"a\\u1", 0),
      file_of("{} x", 0),
      file_of("{" + good + "}", 3),                                             // truncated
      file_of("{" + good + "," + good + "}", 4),                                // twice
      file_of("{" + good + "," + entry("b", "[1]", "[2,6]") + "}", 6),          // overlap
      file_of("{" + entry("a", "[1]", "[4,0]") + "}", 4),                       // reversed
      file_of("{" + entry("a", "[-1]", "[0,4]") + "}", 4),                      // negative
      file_of("{" + entry("a", "[1]", "[0,4,4]") + "}", 4),                     //
      file_of("{" + entry("a", "[99999999999999999999]", "[0,4]") + "}", 4),    //
      file_of(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4),  //
      file_of("{\"__metadata__\":" + std::string(1000000, '['), 0),             // would need that much stack
      file_of("{\"a\":{\"x\":" + std::string(1000000, '['), 0),
  };
  for (const std::string& bytes : files) {
    INFO(bytes.substr(0, 80));
    file.write(bytes);
    CHECK(contains(error_of<IoError>([&] { data::load_safetensors(file.path); }), "load_safetensors"));
  }
  std::string flags = file_of(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 3);
  flags[flags.size() - 1] = 1;
  file.write(flags);
  CHECK(data::load_safetensors(file.path)[0].second.to_vector<bool>() == std::vector<bool>{false, false, true});
  flags[flags.size() - 2] = 7;
  file.write(flags);
  CHECK(contains(error_of<IoError>([&] { data::load_safetensors(file.path); }), "element 1 of BOOL is 7"));
  file.write(file_of("{" + entry("a", "[4611686018427387904,4]", "[0,0]") + "}", 0));
  CHECK_THROWS_AS(data::load_safetensors(file.path), ShapeError);
  CHECK_THROWS_AS(data::load_safetensors("/nonexistent/x"), IoError);
  CHECK_THROWS_AS(data::load_safetensors("/tmp"), IoError);
}
