// SPDX-License-Identifier: Apache-2.0
// tenon-memviz: makes one page of a memory snapshot, or of two and their difference. The page needs no network and no
// other file. docs/memory_tools.md shows one.
#include "snapshot_file.h"
#include "viewer_page.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace {

constexpr char kUsage[] =
    "usage: tenon-memviz SNAPSHOT.json [LATER.json] -o VIEW.html [--lines]\n"
    "  two snapshots: the page shows the later one and the difference\n"
    "  --lines        adds file and line to the stacks (addr2line; programs need debug information)\n";

// Inside a script element "<" could end it; JSON has it in strings only, where it may be written as an escape.
std::string as_data(const std::string& json) {
  std::string text = "<script type=\"application/json\">";
  text.reserve(json.size() + 64);
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text + "</script>\n";
}

std::string html_text(const std::string& plain) {
  std::string text;
  for (const char c : plain) text += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> inputs;
  std::string output;
  bool lines = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-o" && i + 1 < argc) {
      output = argv[++i];
    } else if (argument == "--lines") {
      lines = true;
    } else if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    } else if (!argument.empty() && argument[0] == '-') {
      inputs.clear();
      break;
    } else {
      inputs.push_back(argument);
    }
  }
  if (inputs.empty() || inputs.size() > 2 || output.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::string data, title;
  for (const std::string& path : inputs) {
    std::string text = tenon::tools::read_file(path);
    tenon::tools::parse_snapshot(text, path);  // a damaged one is told here, not in the browser
    data += as_data(lines ? tenon::tools::with_lines(text, path) : text);
    title += (title.empty() ? "" : " → ") + path.substr(path.rfind('/') + 1);
  }
  // In one pass, so that nothing that is put in is searched for marks.
  const std::pair<std::string_view, std::string> parts[] = {{"@TITLE@", html_text(title)},
                                                            {"@STYLE@", kViewerStyle},
                                                            {"@SCRIPT@", kViewerScript},
                                                            {"@DATA@", std::move(data)}};
  std::string page;
  const std::string_view form = kViewerHtml;
  for (size_t at = 0; at < form.size();) {
    bool mark = false;
    for (const auto& [name, text] : parts) {
      if (form.substr(at, name.size()) != name) continue;
      page += text;
      at += name.size();
      mark = true;
      break;
    }
    if (!mark) page += form[at++];
  }
  std::FILE* file = std::fopen(output.c_str(), "wb");
  if (!file || std::fwrite(page.data(), 1, page.size(), file) != page.size() || std::fclose(file) != 0) {
    std::fprintf(stderr, "tenon-memviz: %s: cannot be written: %s\n", output.c_str(), std::strerror(errno));
    return 1;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "tenon-memviz: %s\n", e.what());
  return 1;
}
