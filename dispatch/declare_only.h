// SPDX-License-Identifier: Apache-2.0
// For the source file of an operator family that calls other families: included after its own header, it makes the
// headers that follow declare their operators instead of defining them a second time. Not guarded on purpose.
//
//   #define TENON_DEFINE_OPERATORS
//   #include <tenon/ops/loss.h>
//   #include <tenon/dispatch/declare_only.h>
//   #include <tenon/ops/binary.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

#undef TENON_DEFINE_OPERATORS
#undef TENON_OP
#undef TENON_OP_WITH
#undef TENON_ALIAS
#define TENON_OP(name, schema, kind, flags, ...) TENON_DECLARE_OP_(name, __VA_ARGS__)
#define TENON_OP_WITH(name, schema, kind, flags, implementation, ...) TENON_DECLARE_OP_(name, __VA_ARGS__)
#define TENON_ALIAS(alias, target)
