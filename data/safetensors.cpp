// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/safetensors.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include <unistd.h>

namespace tenon::data {
namespace {

struct DtypeName {
  DType dtype;
  const char* name;
};
constexpr DtypeName kDtypeNames[] = {{kBool, "BOOL"},
                                     {kUInt8, "U8"},
                                     {kInt8, "I8"},
                                     {kInt16, "I16"},
                                     {kInt32, "I32"},
                                     {kInt64, "I64"},
                                     {kFloat16, "F16"},
                                     {kBFloat16, "BF16"},
                                     {kFloat32, "F32"},
                                     {kFloat64, "F64"},
                                     {kFloat8_e4m3fn, "F8_E4M3"},
                                     {kFloat8_e5m2, "F8_E5M2"}};

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    char buffer[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The little JSON a header may hold: objects, arrays, strings, non-negative integers.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape, range;
  };
  std::vector<Entry> parse() {
    std::vector<Entry> entries;
    expect('{');
    if (!accept('}')) {
      do {
        Entry e;
        e.name = string();
        expect(':');
        if (e.name == "__metadata__") {
          skip_value();
          continue;
        }
        expect('{');
        do {
          const std::string key = string();
          expect(':');
          if (key == "dtype")
            e.dtype = string();
          else if (key == "shape")
            e.shape = integers();
          else if (key == "data_offsets")
            e.range = integers();
          else
            skip_value();
        } while (accept(','));
        expect('}');
        check(e.range.size() == 2 && !e.dtype.empty(), "an entry lacks dtype or data_offsets");
        entries.push_back(std::move(e));
      } while (accept(','));
      expect('}');
    }
    space();
    check(at_ == text_.size(), "text after the header's end");
    return entries;
  }

 private:
  void check(bool good, const char* what) const {
    TENON_CHECK(good, IoError, "load_safetensors: ", path_, ": ", what, " (header byte ", at_, ")");
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    const char what[] = {'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', ' ', c, 0};
    check(accept(c), what);
  }
  std::string string() {
    expect('"');
    std::string out;
    for (;;) {
      check(at_ < text_.size(), "an open string");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      check(at_ < text_.size(), "an open string");
      const char escaped = text_[at_++];
      if (escaped == 'u') {
        check(at_ + 4 <= text_.size(), "an open string");
        const unsigned long code = std::strtoul(text_.substr(at_, 4).c_str(), nullptr, 16);
        at_ += 4;
        if (code < 0x80) {
          out += static_cast<char>(code);
        } else if (code < 0x800) {
          out += static_cast<char>(0xC0 | code >> 6);
          out += static_cast<char>(0x80 | (code & 0x3F));
        } else {
          out += static_cast<char>(0xE0 | code >> 12);
          out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
          out += static_cast<char>(0x80 | (code & 0x3F));
        }
      } else {
        out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
      }
    }
  }
  int64_t integer() {
    space();
    check(at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9', "expected a number");
    int64_t v = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      check(v < (int64_t{1} << 59), "a number is too large");
      v = v * 10 + (text_[at_++] - '0');
    }
    return v;
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> out;
    expect('[');
    if (accept(']')) return out;
    do out.push_back(integer());
    while (accept(','));
    expect(']');
    return out;
  }
  void skip_value(int depth = 0) {
    space();
    check(at_ < text_.size(), "a value is missing");
    check(depth < 64, "values are nested too deeply");
    if (text_[at_] == '"') {
      string();
    } else if (accept('{')) {
      if (accept('}')) return;
      do {
        string();
        expect(':');
        skip_value(depth + 1);
      } while (accept(','));
      expect('}');
    } else if (accept('[')) {
      if (accept(']')) return;
      do skip_value(depth + 1);
      while (accept(','));
      expect(']');
    } else {
      while (at_ < text_.size() && std::strchr(",}] \n\t\r", text_[at_]) == nullptr) ++at_;
    }
  }

  const std::string& path_;
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors) {
  std::string header = "{";
  std::set<std::string> names;
  int64_t offset = 0;
  for (const auto& [name, t] : tensors) {
    TENON_CHECK(names.insert(name).second, ValueError, "save_safetensors: the name ", name, " is given twice");
    TENON_CHECK(t.defined() && name != "__metadata__", ValueError, "save_safetensors: ", name,
                t.defined() ? ": the format keeps this name for itself" : ": expected a tensor, got an undefined one");
    const auto* known = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                                     [&](const DtypeName& d) { return d.dtype == t.dtype(); });
    TENON_CHECK(known != std::end(kDtypeNames), ValueError, "save_safetensors: ", name, ": the format has no ",
                t.dtype());
    std::string shape;
    for (const int64_t s : t.sizes()) shape += (shape.empty() ? "" : ",") + std::to_string(s);
    header += (header.size() > 1 ? "," : "") + quoted(name) + ":{\"dtype\":\"" + known->name + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + t.nbytes()) +
              "]}";
    offset += t.nbytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  {
    const File file(std::fopen(temporary.c_str(), "wb"));
    TENON_CHECK(file, IoError, "save_safetensors: cannot write ", temporary, ": ", std::strerror(errno));
    const uint64_t length = header.size();
    bool good =
        std::fwrite(&length, 8, 1, file.get()) == 1 && std::fwrite(header.data(), header.size(), 1, file.get()) == 1;
    for (const auto& named : tensors) {
      const Tensor host = named.second.detach().to(Device(kCPU)).contiguous();
      if (host.nbytes() > 0)
        good = good && std::fwrite(host.data_ptr(), static_cast<std::size_t>(host.nbytes()), 1, file.get()) == 1;
    }
    good = good && std::fflush(file.get()) == 0;
    if (!good) std::remove(temporary.c_str());
    TENON_CHECK(good, IoError, "save_safetensors: writing ", temporary, " failed: ", std::strerror(errno));
  }
  TENON_CHECK(std::rename(temporary.c_str(), path.c_str()) == 0, IoError, "save_safetensors: cannot rename ", temporary,
              " to ", path, ": ", std::strerror(errno));
}

NamedTensors load_safetensors(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  TENON_CHECK(file, IoError, "load_safetensors: cannot open ", path, ": ", std::strerror(errno));
  std::fseek(file.get(), 0, SEEK_END);
  const auto size = static_cast<int64_t>(std::ftell(file.get()));
  std::rewind(file.get());
  uint64_t length = 0;
  TENON_CHECK(size >= 8 && std::fread(&length, 8, 1, file.get()) == 1 && length <= static_cast<uint64_t>(size - 8),
              IoError, "load_safetensors: ", path, " is not a safetensors file: its header does not fit ", size,
              " bytes");
  std::string header(length, ' ');
  TENON_CHECK(length == 0 || std::fread(header.data(), length, 1, file.get()) == 1, IoError,
              "load_safetensors: reading ", path, " failed");
  std::vector<HeaderParser::Entry> entries = HeaderParser(path, header).parse();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.range[0] < b.range[0]; });
  const int64_t data = 8 + static_cast<int64_t>(length);
  NamedTensors out;
  std::set<std::string> names;
  int64_t end = 0;
  for (const HeaderParser::Entry& e : entries) {
    TENON_CHECK(names.insert(e.name).second, IoError, "load_safetensors: ", path, ": ", e.name, " is there twice");
    TENON_CHECK(e.range[0] >= end, IoError, "load_safetensors: ", path, ": ", e.name, ": bytes ", e.range[0], " to ",
                e.range[1], " overlap another tensor's, which end at ", end);
    end = e.range[1];
    const auto* known = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                                     [&](const DtypeName& d) { return e.dtype == d.name; });
    TENON_CHECK(known != std::end(kDtypeNames), IoError, "load_safetensors: ", path, ": ", e.name, ": unknown dtype ",
                e.dtype);
    TENON_CHECK(checked_numel(e.shape, "load_safetensors") * item_size(known->dtype) == e.range[1] - e.range[0] &&
                    data + e.range[1] <= size,
                IoError, "load_safetensors: ", path, ": ", e.name, ": bytes ", e.range[0], " to ", e.range[1],
                " do not hold ", known->dtype, " of sizes ", IntArrayRef(e.shape));
    Tensor t = empty(e.shape, known->dtype);
    std::fseek(file.get(), static_cast<long>(data + e.range[0]), SEEK_SET);
    TENON_CHECK(t.nbytes() == 0 || std::fread(t.data_ptr(), static_cast<std::size_t>(t.nbytes()), 1, file.get()) == 1,
                IoError, "load_safetensors: ", path, " ends within ", e.name);
    if (known->dtype == kBool) {
      const auto* bytes = static_cast<const uint8_t*>(t.data_ptr());
      const auto* wrong = std::find_if(bytes, bytes + t.numel(), [](uint8_t b) { return b > 1; });
      TENON_CHECK(wrong == bytes + t.numel(), IoError, "load_safetensors: ", path, ": ", e.name, ": element ",
                  wrong - bytes, " of BOOL is ", static_cast<int>(*wrong), "; expected 0 or 1");
    }
    out.emplace_back(e.name, std::move(t));
  }
  return out;
}

}  // namespace tenon::data
