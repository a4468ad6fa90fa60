// SPDX-License-Identifier: Apache-2.0
// Runs the claims and prints them: claim, measured, verdict. Markdown, or JSON with --json. Exit status 0, also when a
// claim fails; with --strict 1 then.
#include "claims.h"

#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <tenon/version.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

namespace tenon::claims {

int start_up_child();  // build_claims.cpp

namespace {

struct Entry {
  const char* area;
  Claim claim;
  Outcome outcome;
};
std::vector<Entry>& entries() {
  static std::vector<Entry> all;
  return all;
}

constexpr const char* kVerdicts[] = {"holds", "fails", "cannot run here"};

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}
std::string cell(std::string text) {
  for (char& c : text) c = c == '|' ? '/' : c == '\n' ? ' ' : c;
  return text;
}

std::string machine() {
  std::string name = "unknown CPU";
  if (std::FILE* f = std::fopen("/proc/cpuinfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f)) {
      if (std::strncmp(line, "model name", 10) == 0) {
        name = std::strchr(line, ':') + 2;
        name.erase(name.find_last_not_of(" \n") + 1);
        break;
      }
    }
    std::fclose(f);
  }
  return name + (gpu() ? ", " + std::string(cuda::device_properties(0).name) : ", no GPU");
}

int run(int argc, char** argv) {
  bool json = false, strict = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--strict") {
      strict = true;
    } else if (argument == "--start-up-child") {
      return start_up_child();
    } else if (argument == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      const bool help = argument == "--help" || argument == "-h";
      std::fprintf(help ? stdout : stderr, "usage: tenon-claims [--json] [--strict] [--only NUMBER|AREA]\n");
      return help ? 0 : 2;
    }
  }
  std::vector<Entry*> chosen;
  for (Entry& e : entries()) {
    if (only.empty() || only == e.area || only == std::to_string(e.claim.number)) chosen.push_back(&e);
  }
  if (chosen.empty()) {
    std::string areas;
    for (const Entry& e : entries()) {
      if (areas.find(e.area) == std::string::npos) areas += (areas.empty() ? "" : ", ") + std::string(e.area);
    }
    std::fprintf(stderr, "tenon-claims: --only: expected the number of a claim or one of %s; got '%s'\n", areas.c_str(),
                 only.c_str());
    return 2;
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](auto* a, auto* b) { return a->claim.number < b->claim.number; });
  if (json) {
    std::printf("{\"tenon\": \"%s\", \"machine\": %s, \"claims\": [", TENON_VERSION, json_text(machine()).c_str());
  } else {
    std::printf("tenon %s on %s\n\n| # | area | claim | measured | verdict |\n|---|---|---|---|---|\n", TENON_VERSION,
                machine().c_str());
  }
  int counts[3] = {};
  const char* separator = "\n ";
  for (Entry* e : chosen) {
    try {
      e->outcome = e->claim.measure();
    } catch (const std::exception& error) {
      e->outcome = {Verdict::fails, std::string("error: ") + error.what()};
    }
    const int verdict = static_cast<int>(e->outcome.verdict);
    ++counts[verdict];
    if (json) {
      std::printf("%s{\"number\": %d, \"area\": \"%s\", \"claim\": %s, \"measured\": %s, \"verdict\": \"%s\"}",
                  separator, e->claim.number, e->area, json_text(e->claim.text).c_str(),
                  json_text(e->outcome.measured).c_str(), kVerdicts[verdict]);
      separator = ",\n ";
    } else {
      std::printf("| %d | %s | %s | %s | %s |\n", e->claim.number, e->area, cell(e->claim.text).c_str(),
                  cell(e->outcome.measured).c_str(), kVerdicts[verdict]);
    }
    std::fflush(stdout);
  }
  std::printf(
      json ? "\n], \"holds\": %d, \"fails\": %d, \"cannot_run\": %d}\n" : "\n%d hold, %d fail, %d cannot run here.\n",
      counts[0], counts[1], counts[2]);
  return strict && counts[1] > 0 ? 1 : 0;
}

}  // namespace

Area::Area(const char* name, std::initializer_list<Claim> claims) {
  for (const Claim& claim : claims) entries().push_back({name, claim, {}});
}

const Device* gpu() {
  static const Device device(kCUDA, 0);
  static const bool works = [] {
    try {
      return cuda::is_available();
    } catch (const std::exception&) {
      return false;
    }
  }();
  return works ? &device : nullptr;
}

std::vector<Device> devices() {
  std::vector<Device> list{Device(kCPU)};
  if (gpu()) list.push_back(*gpu());
  return list;
}

std::string number(double value, int digits) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}
std::string mib(int64_t bytes) { return number(static_cast<double>(bytes) / (1 << 20)) + " MiB"; }

}  // namespace tenon::claims

int main(int argc, char** argv) {
  try {
    return tenon::claims::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tenon-claims: %s\n", e.what());
    return 2;
  }
}
