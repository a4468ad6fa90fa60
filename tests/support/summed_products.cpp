// SPDX-License-Identifier: Apache-2.0
#include <tenon/testing/summed_products.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace tenon::testing {

Array summed_products(std::string equation, const std::vector<Array>& operands, DType t) {
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  // "..." is written out as digits.
  std::string most;  // dimensions of the longest "..."
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::size_t dots = terms[i].find("...");
    if (dots == std::string::npos) continue;
    const auto own = static_cast<std::size_t>(operands[i].dim()) - (terms[i].size() - 3);
    const std::string digits = std::string("9876543210").substr(10 - own);
    terms[i].replace(dots, 3, digits);
    if (digits.size() > most.size()) most = digits;
  }
  std::string result;
  if (arrow == std::string::npos) {
    std::map<char, int> times;
    for (const std::string& term : terms)
      for (const char c : term) ++times[c];
    result = most;
    for (const auto& [c, n] : times)
      if (n == 1 && !std::isdigit(c)) result += c;
  } else {
    result = equation.substr(arrow + 2);
    if (const std::size_t dots = result.find("..."); dots != std::string::npos) result.replace(dots, 3, most);
  }

  std::map<char, int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t d = 0; d < terms[i].size(); ++d) {
      int64_t& n = sizes.try_emplace(terms[i][d], 1).first->second;
      if (operands[i].sizes[d] != 1) n = operands[i].sizes[d];
    }
  std::vector<int64_t> all, own;
  std::map<char, std::size_t> place;
  for (const auto& [c, n] : sizes) place[c] = all.size(), all.push_back(n);
  for (const char c : result) own.push_back(sizes[c]);
  Array out = make_array(t, own);
  std::vector<uint64_t> whole(out.data.size(), 0);
  out.scale.assign(out.data.size(), 0);
  const auto at_of = [&](const std::string& term, const std::vector<int64_t>& dims, const std::vector<int64_t>& at) {
    int64_t flat = 0;
    for (std::size_t d = 0; d < term.size(); ++d) flat = flat * dims[d] + (dims[d] == 1 ? 0 : at[place[term[d]]]);
    return static_cast<std::size_t>(flat);
  };
  for (Number& v : out.data) v = Number(Complex(0));
  each_index(all, [&](const std::vector<int64_t>& at) {
    Complex z = 1;
    uint64_t w = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Number& v = operands[i].data[at_of(terms[i], operands[i].sizes, at)];
      z *= v.z;
      w *= static_cast<uint64_t>(v.i);
    }
    const std::size_t to = at_of(result, own, at);
    out.data[to].z += z;
    whole[to] += w;
    out.scale[to] += 2 * std::abs(z);
  });
  if (is_integral(t))
    for (std::size_t i = 0; i < whole.size(); ++i)
      out.data[i] = convert(Number(static_cast<int64_t>(whole[i])), kInt64, t);
  return out;
}

}  // namespace tenon::testing
