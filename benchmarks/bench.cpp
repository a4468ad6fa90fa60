// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "peer/peer.h"

#include <tenon/streams/availability.h>
#include <tenon/streams/stream.h>

#include <dlfcn.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

namespace tenon::bench {
namespace {

std::vector<Row>& rows() {
  static std::vector<Row> list;
  return list;
}

struct Options {
  std::string filter = "*", device, json, markdown;
  std::string peer = "libtenon_peer.so";
  double seconds = 0.4;  // per row and side
  int rounds = 9;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// One side of a comparison: run n iterations, wait for them.
struct Side {
  std::function<void(int64_t)> run;
  std::function<void()> wait;
  int64_t iterations = 1;

  double seconds(int64_t n) const {
    wait();
    const double start = now();
    run(n);
    wait();
    return now() - start;
  }
  // Warms up and finds how many iterations fill one round.
  void calibrate(double round_seconds) {
    run(1);
    wait();
    for (iterations = 1; iterations < (int64_t{1} << 40);) {
      const double t = seconds(iterations);
      if (t >= round_seconds) break;
      const double grow = t > 0 ? round_seconds / t * 1.1 : 10;
      iterations = std::max<int64_t>(iterations + 1,
                                     static_cast<int64_t>(static_cast<double>(iterations) * std::min(grow, 10.0)));
    }
  }
};

struct Result {
  Row row;
  double seconds = 0, peer_seconds = 0, ratio = 0, roof_share = 0;
};

std::string human(double seconds) {
  char text[32];
  if (seconds < 1e-6)
    std::snprintf(text, sizeof text, "%.1f ns", seconds * 1e9);
  else if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.2f µs", seconds * 1e6);
  else
    std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  return text;
}

std::string rate(const Row& row, double seconds) {
  if (row.bound == Bound::host || row.amount == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, row.bound == Bound::memory ? "%.0f GB/s" : "%.1f TFLOP/s",
                row.amount / seconds / (row.bound == Bound::memory ? 1e9 : 1e12));
  return text;
}

const TenonPeer* open_peer(const std::string& path) {
  if (path.empty() || path == "none") return nullptr;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fprintf(stderr, "no peer: %s\n", dlerror());
    return nullptr;
  }
  auto* entry = reinterpret_cast<const TenonPeer* (*)()>(dlsym(library, "tenon_peer"));
  return entry ? entry() : nullptr;
}

Result measure(const Row& row, const TenonPeer* peer, const Options& options) {
  Result result{row};
  const auto step = row.prepare();
  const Device device(row.device);
  Side own{[&](int64_t n) {
             for (int64_t i = 0; i < n; ++i) step();
           },
           [&] {
             if (!device.is_cpu()) synchronize(device);
           }};
  void* work = peer ? peer->prepare(row.name.c_str(), row.device.c_str()) : nullptr;
  Side other{[&](int64_t n) { peer->run(work, n); },
             [&] {
               if (!device.is_cpu()) peer->synchronize();
             }};
  const double round = options.seconds / options.rounds;
  own.calibrate(round);
  if (work) other.calibrate(round);
  std::vector<double> own_times, other_times, ratios;
  for (int r = 0; r < options.rounds; ++r) {
    own_times.push_back(own.seconds(own.iterations) / static_cast<double>(own.iterations));
    if (!work) continue;
    other_times.push_back(other.seconds(other.iterations) / static_cast<double>(other.iterations));
    ratios.push_back(own_times.back() / other_times.back());
  }
  if (work) peer->destroy(work);
  result.seconds = median(own_times);
  result.peer_seconds = median(other_times);
  result.ratio = median(ratios);
  return result;
}

std::string json_of(const std::vector<Result>& results, const char* peer) {
  std::string out = "{\n \"peer\": \"" + std::string(peer) + "\",\n \"rows\": [\n";
  char text[320];
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::snprintf(
        text, sizeof text,
        "  {\"name\": \"%s\", \"device\": \"%s\", \"seconds\": %.4g, \"peer_seconds\": %.4g, \"ratio\": %.4g, "
        "\"roof_share\": %.4g, \"amount\": %.6g}%s\n",
        r.row.name.c_str(), r.row.device.c_str(), r.seconds, r.peer_seconds, r.ratio, r.roof_share, r.row.amount,
        i + 1 < results.size() ? "," : "");
    out += text;
  }
  return out + " ]\n}\n";
}

std::string markdown_of(const std::vector<Result>& results, const char* peer) {
  std::string out = "| row | device | tenon | rate | of roof | " + std::string(peer) +
                    " | tenon / peer |\n|---|---|---|---|---|---|---|\n";
  for (const Result& r : results) {
    char share[16] = "", ratio[16] = "";
    if (r.roof_share > 0) std::snprintf(share, sizeof share, "%.2f", r.roof_share);
    if (r.ratio > 0) std::snprintf(ratio, sizeof ratio, "%.3f", r.ratio);
    out += "| " + r.row.name + " | " + r.row.device + " | " + human(r.seconds) + " | " + rate(r.row, r.seconds) +
           " | " + share + " | " + (r.peer_seconds > 0 ? human(r.peer_seconds) : "") + " | " + ratio + " |\n";
  }
  return out;
}

}  // namespace

void add_row(Row row) { rows().push_back(std::move(row)); }

int run_all(int argc, char** argv) {
  Options options;
  if (const char* path = std::getenv("TENON_PEER")) options.peer = path;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--rows")
      options.filter = value;
    else if (flag == "--device")
      options.device = value;
    else if (flag == "--json")
      options.json = value;
    else if (flag == "--markdown")
      options.markdown = value;
    else if (flag == "--peer")
      options.peer = value;
    else if (flag == "--seconds")
      options.seconds = std::atof(value.c_str());
    else if (flag == "--rounds")
      options.rounds = std::max(1, std::atoi(value.c_str()));
    else {
      std::fprintf(stderr,
                   "options: --rows GLOB --device cpu|cuda --peer LIB|none --seconds S --rounds N --json FILE "
                   "--markdown FILE\n");
      return 2;
    }
  }
  const TenonPeer* peer = open_peer(options.peer);
  const char* peer_name = peer ? peer->name : "no peer";
  const bool cuda = cuda::is_available();
  std::vector<Result> results;
  std::map<std::string, double> roofs;  // bytes per second of the best memory-bound "roof" row, by device
  for (const Row& row : rows()) {
    if (row.device == "cuda" && !cuda) continue;
    if (!options.device.empty() && options.device != row.device) continue;
    if (fnmatch(options.filter.c_str(), row.name.c_str(), 0) != 0) continue;
    try {
      Result r = measure(row, peer, options);
      if (row.bound == Bound::memory && row.name.starts_with("roof"))
        roofs[row.device + row.name] = row.amount / r.seconds;
      results.push_back(std::move(r));
      std::fprintf(stderr, "%-44s %-4s %12s  %s\n", row.name.c_str(), row.device.c_str(),
                   human(results.back().seconds).c_str(),
                   results.back().ratio > 0 ? ("x" + std::to_string(results.back().ratio)).c_str() : "");
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%-44s %-4s %s\n", row.name.c_str(), row.device.c_str(), e.what());
    }
  }
  for (Result& r : results) {
    if (r.row.bound != Bound::memory) continue;
    // The roof of two reads and a write serves every mix; a row's own mix may exceed it by a few percent.
    const auto roof = roofs.find(r.row.device + "roof add");
    if (roof != roofs.end()) r.roof_share = r.row.amount / r.seconds / roof->second;
  }
  const std::string table = markdown_of(results, peer_name);
  std::fputs(table.c_str(), stdout);
  if (!options.markdown.empty()) std::ofstream(options.markdown) << table;
  if (!options.json.empty()) std::ofstream(options.json) << json_of(results, peer_name);
  return results.empty() ? 1 : 0;
}

}  // namespace tenon::bench
