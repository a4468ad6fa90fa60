// SPDX-License-Identifier: Apache-2.0
// The updates themselves, on numbers or on SIMD vectors: V has the four operations, TENON_RULE_SQRT and TENON_RULE_MAX are
// the two functions. Included once per SIMD target and once for CUDA, each time inside a namespace, after a definition of
// TENON_RULE (how the function is compiled) and of the two functions. k: OptimizerFactors.k of one element type.
//
// Robbins and Monro 1951 (sgd), Sutskever et al. 2013 (nesterov), Kingma and Ba 2015 (adam), Reddi et al. 2018 (amsgrad),
// Loshchilov and Hutter 2019 (decoupled decay), Dozat 2016 (nadam), Hinton 2012 (rmsprop), Duchi et al. 2011 (adagrad),
// Zeiler 2012 (adadelta).

/// Updates parameter p from gradient g; s0, s1, s2: its state, unused ones are left alone.
template <OptimizerRule kRule, class V>
TENON_RULE void optimizer_rule(int64_t flags, bool decays, V decay, V shrink, const V* k, V zero, V& p, V g, V& s0,
                               V& s1, V& s2) {
  if (flags & kMaximize) g = zero - g;
  if (decays) g = g + decay * p;
  if constexpr (kRule == OptimizerRule::sgd) {
    if (flags & kFirstState) {
      s0 = s0 * k[0] + g * k[1];
      g = flags & kNesterov ? g + s0 * k[0] : s0;
    }
    p = p - k[2] * g;
  } else if constexpr (kRule == OptimizerRule::adam || kRule == OptimizerRule::nadam) {
    if (flags & kDecoupledDecay) p = p * shrink;
    s0 = s0 + (g - s0) * k[0];
    s1 = s1 * k[1] + g * g * k[2];
    V square = s1;
    if (flags & kThirdState) square = s2 = TENON_RULE_MAX(s2, s1);
    const V root = TENON_RULE_SQRT(square) * k[3] + k[4];
    if constexpr (kRule == OptimizerRule::adam)
      p = p - k[5] * (s0 / root);
    else
      p = p - (k[5] * g + k[6] * s0) / root;
  } else if constexpr (kRule == OptimizerRule::rmsprop) {
    s0 = s0 * k[0] + g * g * k[1];
    V square = s0;
    if (flags & kThirdState) {
      s2 = s2 + (g - s2) * k[1];
      square = s0 - s2 * s2;
    }
    V update = g / (TENON_RULE_SQRT(square) + k[3]);
    if (flags & kSecondState) update = s1 = s1 * k[2] + update;
    p = p - k[4] * update;
  } else if constexpr (kRule == OptimizerRule::adagrad) {
    s0 = s0 + g * g;
    p = p - k[0] * (g / (TENON_RULE_SQRT(s0) + k[1]));
  } else {
    s0 = s0 * k[0] + g * g * k[1];
    const V update = TENON_RULE_SQRT(s1 + k[2]) / TENON_RULE_SQRT(s0 + k[2]) * g;
    s1 = s1 * k[0] + update * update * k[1];
    p = p - k[3] * update;
  }
}
