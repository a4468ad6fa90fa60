// SPDX-License-Identifier: Apache-2.0
// einsum and tensordot. A factor is a tensor whose dimensions carry distinct labels; two factors are contracted by one
// (batched) matrix product, or by an elementwise product where nothing is summed. A dimension of size 1 that broadcasts
// is dropped first: a factor without the label.
#include <tenon/ops/linalg.h>
//
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::impl {
namespace {

using Mask = uint64_t;  // of labels, which are numbered from 0
constexpr int kMostLabels = 64;
constexpr std::size_t kExhaustive = 6;  // operands up to which all orders are compared

Mask bit(int64_t label) { return Mask{1} << label; }

struct Factor {
  Tensor t;
  DimVector labels;
  Mask mask() const {
    Mask m = 0;
    for (const int64_t l : labels) m |= bit(l);
    return m;
  }
  int64_t place(int64_t label) const {
    for (std::size_t d = 0; d < labels.size(); ++d)
      if (labels[d] == label) return static_cast<int64_t>(d);
    return -1;
  }
};

// Sums out the labels that are not in `keep`.
Factor summed(const Factor& f, Mask keep, std::optional<DType> dtype) {
  DimVector dims, left;
  for (std::size_t d = 0; d < f.labels.size(); ++d) {
    if (keep & bit(f.labels[d]))
      left.push_back(f.labels[d]);
    else
      dims.push_back(static_cast<int64_t>(d));
  }
  return dims.empty() ? f : Factor{op::sum(f.t, IntArrayRef(dims), false, dtype), left};
}

// With its dimensions in the order of `labels`, size 1 where it lacks one. `labels` hold all of f's.
Tensor aligned(const Factor& f, const DimVector& labels) {
  DimVector order;
  for (const int64_t l : labels)
    if (f.place(l) >= 0) order.push_back(f.place(l));
  Tensor t = f.t.permute(order);
  for (std::size_t d = 0; d < labels.size(); ++d)
    if (f.place(labels[d]) < 0) t = t.unsqueeze(static_cast<int64_t>(d));
  return t;
}

// The product of a and b summed over what is not in `keep`. `sums`: the dtype of sums of one of them, default that of sum.
Factor contracted(const Factor& a, const Factor& b, Mask keep, std::optional<DType> sums = {}) {
  const Factor x = summed(a, b.mask() | keep, sums), y = summed(b, a.mask() | keep, sums);
  const Mask both = x.mask() & y.mask();
  DimVector batch, inner, rows, columns;
  for (const int64_t l : x.labels) (!(both & bit(l)) ? rows : keep & bit(l) ? batch : inner).push_back(l);
  for (const int64_t l : y.labels)
    if (!(both & bit(l))) columns.push_back(l);
  const auto joined = [](DimVector first, const DimVector& second) {
    for (const int64_t l : second) first.push_back(l);
    return first;
  };
  const DimVector result = joined(joined(batch, rows), columns);
  if (inner.empty()) return {mul(aligned(x, result), aligned(y, result)), result};

  DimVector sizes;
  int64_t batches = 1, m = 1, k = 1, n = 1;
  const auto count = [&](const Factor& f, const DimVector& labels, int64_t& total, bool kept) {
    for (const int64_t l : labels) {
      const int64_t size = f.t.size(f.place(l));
      total *= size;
      if (kept) sizes.push_back(size);
    }
  };
  count(x, batch, batches, true);
  count(x, rows, m, true);
  count(x, inner, k, false);
  count(y, columns, n, true);
  Tensor left = aligned(x, joined(joined(batch, rows), inner)),
         right = aligned(y, joined(joined(batch, inner), columns));
  if (is_integral(left.dtype(), true) && is_integral(right.dtype(), true)) {  // sums of integers are int64
    const DType t = dispatch::result_type(left, right);
    left = left.to(t), right = right.to(t);
  }
  const Tensor product = batch.empty() ? op::mm(left.reshape({m, k}), right.reshape({k, n}))
                                       : op::bmm(left.reshape({batches, m, k}), right.reshape({batches, k, n}));
  return {product.reshape(sizes), result};
}

// All factors contracted to the labels of `keep`, in the order that takes the fewest multiplications.
class Contraction {
 public:
  Contraction(std::vector<Factor> factors, Mask keep, const std::vector<int64_t>& sizes)
      : factors_(static_cast<std::vector<Factor>&&>(factors)), keep_(keep), sizes_(sizes) {}

  Factor run() {
    while (factors_.size() > kExhaustive) merge_cheapest();
    const std::size_t all = (std::size_t{1} << factors_.size()) - 1;
    labels_.assign(all + 1, 0), first_.assign(all + 1, 0), cost_.assign(all + 1, 0);
    for (std::size_t set = 1; set <= all; ++set) plan(set);
    return contract(all);
  }

 private:
  double volume(Mask labels) const {
    double v = 1;
    for (std::size_t l = 0; l < sizes_.size(); ++l)
      if (labels & bit(static_cast<int64_t>(l))) v *= static_cast<double>(sizes_[l]);
    return v;
  }
  // Labels that are needed beside the factors of `set`.
  Mask outside(std::size_t set) const {
    Mask m = keep_;
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (!(set >> i & 1)) m |= factors_[i].mask();
    return m;
  }
  void merge_cheapest() {
    std::size_t a = 0, b = 1;
    double least = -1;
    for (std::size_t i = 0; i < factors_.size(); ++i)
      for (std::size_t j = i + 1; j < factors_.size(); ++j) {
        const double cost = volume(factors_[i].mask() | factors_[j].mask());
        if (least < 0 || cost < least) least = cost, a = i, b = j;
      }
    const std::size_t pair = std::size_t{1} << a | std::size_t{1} << b;
    factors_[a] = contracted(factors_[a], factors_[b], outside(pair));
    factors_.erase(factors_.begin() + static_cast<std::ptrdiff_t>(b));
  }
  // The best split of a set in two; smaller sets are known.
  void plan(std::size_t set) {
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (set >> i & 1) labels_[set] |= factors_[i].mask();
    if ((set & (set - 1)) == 0) return;
    labels_[set] &= outside(set);
    for (std::size_t a = (set - 1) & set; a != 0; a = (a - 1) & set) {
      const std::size_t b = set ^ a;
      if (a < b) break;  // the rest are the same pairs
      const double cost = cost_[a] + cost_[b] + volume(labels_[a] | labels_[b]);
      if (first_[set] == 0 || cost < cost_[set]) cost_[set] = cost, first_[set] = b;
    }
  }
  Factor contract(std::size_t set) const {
    if (const std::size_t b = first_[set]) return contracted(contract(b), contract(set ^ b), labels_[set]);
    std::size_t i = 0;
    while (!(set >> i & 1)) ++i;
    return factors_[i];
  }

  std::vector<Factor> factors_;
  const Mask keep_;
  const std::vector<int64_t>& sizes_;
  std::vector<Mask> labels_;        // of a set's product
  std::vector<std::size_t> first_;  // one half of its best split
  std::vector<double> cost_;
};

constexpr int kEllipsis = -1;
using Subscripts = std::vector<int>;  // letters and kEllipsis

// One list per operand, and the result's if there is an arrow.
std::vector<Subscripts> parsed(std::string_view equation, bool& arrow) {
  std::vector<Subscripts> lists(1);
  arrow = false;
  for (std::size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    if (c == ' ') continue;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      lists.back().push_back(c);
    } else if (c == '.') {
      TENON_CHECK(equation.substr(i, 3) == "...", ValueError, "einsum: equation: expected \"...\" at ", i, " of \"",
                  equation, "\"");
      for (const int s : lists.back())
        TENON_CHECK(s != kEllipsis, ValueError, "einsum: equation: expected \"...\" once per operand in \"", equation,
                    "\"");
      lists.back().push_back(kEllipsis);
      i += 2;
    } else if (c == ',' && !arrow) {
      lists.emplace_back();
    } else {
      TENON_CHECK(equation.substr(i, 2) == "->" && !arrow, ValueError,
                  "einsum: equation: expected letters, \"...\", \",\" and one \"->\", got \"", c, "\" at ", i, " of \"",
                  equation, "\"");
      arrow = true;
      lists.emplace_back();
      ++i;
    }
  }
  return lists;
}

}  // namespace

Tensor einsum(Call&, std::string_view equation, TensorList tensors) {
  bool arrow = false;
  std::vector<Subscripts> lists = parsed(equation, arrow);
  const std::size_t n = lists.size() - (arrow ? 1 : 0);
  TENON_CHECK(n == tensors.size() && n > 0, ValueError, "einsum: tensors: expected ", n, " for \"", equation,
              "\", got ", tensors.size());

  // Labels: the dimensions of "..." counted from its left, then letters in the order of their codes.
  int64_t ellipsis = 0;
  int times[128] = {}, label_of[128] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const int64_t rank = tensors[i].dim();
    int64_t letters = 0;
    for (const int s : lists[i])
      if (s != kEllipsis) ++letters, ++times[s];
    const bool has_ellipsis = letters != static_cast<int64_t>(lists[i].size());
    TENON_CHECK(has_ellipsis ? letters <= rank : letters == rank, ShapeError, "einsum: tensors: \"", equation,
                "\" names ", letters, " dimensions of operand ", i, ", which has ", rank);
    if (has_ellipsis) ellipsis = std::max(ellipsis, rank - letters);
    TENON_CHECK(tensors[i].device() == tensors[0].device(), DeviceError, "einsum: tensors: expected one device, got ",
                tensors[0].device(), " and ", tensors[i].device());
  }
  int64_t count = ellipsis;
  for (int c = 0; c < 128; ++c)
    if (times[c] > 0) label_of[c] = static_cast<int>(count++);
  TENON_CHECK(count <= kMostLabels && n <= kMostLabels, ShapeError, "einsum: equation: expected at most ", kMostLabels,
              " operands, and dimensions in all, got ", n, " and ", count);

  std::vector<int64_t> sizes(static_cast<std::size_t>(count), 1);
  std::vector<Factor> factors;
  for (std::size_t i = 0; i < n; ++i) {
    Factor f{tensors[i], {}};
    const int64_t own = f.t.dim() - static_cast<int64_t>(lists[i].size()) + 1;  // dimensions of its "..."
    for (const int s : lists[i]) {
      if (s == kEllipsis) {
        for (int64_t d = 0; d < own; ++d) f.labels.push_back(ellipsis - own + d);
        continue;
      }
      const int64_t known = f.place(label_of[s]), here = static_cast<int64_t>(f.labels.size());
      if (known < 0) {
        f.labels.push_back(label_of[s]);
        continue;
      }
      TENON_CHECK(f.t.size(known) == f.t.size(here), ShapeError, "einsum: tensors: '", static_cast<char>(s),
                  "' is the diagonal of two dimensions of operand ", i, ": expected equal sizes, got ", f.t.size(known),
                  " and ", f.t.size(here));
      f.t = movedim(diagonal(f.t, 0, known, here), -1, known);
    }
    for (std::size_t d = 0; d < f.labels.size(); ++d) {
      int64_t& size = sizes[static_cast<std::size_t>(f.labels[d])];
      const int64_t mine = f.t.sizes()[d];
      TENON_CHECK(mine == size || mine == 1 || size == 1, ShapeError, "einsum: tensors: operand ", i, " has size ",
                  mine, " where another one has ", size, " in \"", equation, "\"");
      if (size == 1) size = mine;
    }
    factors.push_back(static_cast<Factor&&>(f));
  }

  DimVector result;
  Mask keep = 0;
  const auto put = [&](int64_t label) {
    keep |= bit(label);
    result.push_back(label);
  };
  if (arrow) {
    for (const int s : lists.back()) {
      for (int64_t d = 0; s == kEllipsis && d < ellipsis; ++d) put(d);
      if (s == kEllipsis) continue;
      TENON_CHECK(times[s] > 0, ValueError, "einsum: equation: '", static_cast<char>(s),
                  "' of the result is in no operand of \"", equation, "\"");
      TENON_CHECK(!(keep & bit(label_of[s])), ValueError, "einsum: equation: '", static_cast<char>(s),
                  "' is in the result of \"", equation, "\" twice");
      put(label_of[s]);
    }
  } else {
    for (int64_t d = 0; d < ellipsis; ++d) put(d);
    for (int c = 0; c < 128; ++c)
      if (times[c] == 1) put(label_of[c]);
  }

  // A lone operand's sum has the dtype of sum, as in PyTorch.
  if (n == 1) return aligned(summed(factors[0], keep, {}), result);
  for (Factor& f : factors)
    for (std::size_t d = f.labels.size(); d-- > 0;)
      if (f.t.sizes()[d] == 1 && sizes[static_cast<std::size_t>(f.labels[d])] != 1) {
        f.t = f.t.select(static_cast<int64_t>(d), 0);
        f.labels.erase(d);
      }
  return aligned(Contraction(static_cast<std::vector<Factor>&&>(factors), keep, sizes).run(), result);
}

Tensor tensordot(Call&, const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other) {
  TENON_CHECK(dims_self.size() == dims_other.size(), ValueError,
              "tensordot: dims: expected as many of self as of other, got ", dims_self, " and ", dims_other);
  TENON_CHECK(self.dtype() == other.dtype(), DtypeError, "tensordot: expected one dtype, got self ", self.dtype(),
              " and other ", other.dtype());
  TENON_CHECK(self.dim() + other.dim() <= kMostLabels, ShapeError, "tensordot: too many dimensions");
  Factor a{self, {}}, b{other, {}};
  Mask keep = 0;
  for (int64_t d = 0; d < self.dim(); ++d) a.labels.push_back(d), keep |= bit(d);
  for (int64_t d = 0; d < other.dim(); ++d) b.labels.push_back(self.dim() + d), keep |= bit(self.dim() + d);
  Mask used = 0;
  for (std::size_t i = 0; i < dims_self.size(); ++i) {
    const int64_t p = wrap_dim(dims_self[i], self.dim(), "tensordot"),
                  q = wrap_dim(dims_other[i], other.dim(), "tensordot"), n = self.size(p), m = other.size(q);
    TENON_CHECK(n == m || n == 1 || m == 1, ShapeError, "tensordot: dims: dimension ", p, " of self has size ", n,
                ", dimension ", q, " of other has ", m);
    TENON_CHECK(!((used >> p | used >> (self.dim() + q)) & 1), ValueError, "tensordot: dims: expected each once, got ",
                dims_self, " and ", dims_other);
    used |= bit(p) | bit(self.dim() + q);
    if (n == m) b.labels[static_cast<std::size_t>(q)] = p;
  }
  return contracted(a, b, keep & ~used, self.dtype()).t;
}

Tensor tensordot_dims(Call&, const Tensor& self, const Tensor& other, int64_t dims) {
  TENON_CHECK(dims >= 0 && dims <= self.dim() && dims <= other.dim(), ValueError,
              "tensordot: dims: expected from 0 to the ranks, ", self.dim(), " and ", other.dim(), ", got ", dims);
  DimVector last, first;
  for (int64_t d = 0; d < dims; ++d) last.push_back(self.dim() - dims + d), first.push_back(d);
  return op::tensordot(self, other, last, first);
}

}  // namespace tenon::impl
