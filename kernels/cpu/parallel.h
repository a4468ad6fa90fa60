// SPDX-License-Identifier: Apache-2.0
// parallel_for: splits a range over the library's own threads. The calling thread takes part; workers claim
// chunks when they get there, so a worker that is late, or a machine with one core, costs nothing but speed.
// Thread safety: any number of threads may call at once. A call made inside a chunk runs inline, in order.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <type_traits>

namespace tenon {

/// Threads one parallel_for uses, the caller included. At first TENON_NUM_THREADS, else the CPUs this process may
/// run on. OpenMP's settings are neither read nor changed.
TENON_API int num_threads();
/// Sets it for the whole process (at least 1; ValueError otherwise). Calls under way are not affected.
TENON_API void set_num_threads(int threads);
/// Whether the calling thread is running a chunk: a parallel_for here would run inline.
TENON_API bool in_parallel_region();

namespace detail {
/// Runs body(context, chunk) once for every chunk in [0, chunks); rethrows the first exception of a chunk.
TENON_API void run_chunks(int64_t chunks, void (*body)(void* context, int64_t chunk), void* context);
/// Size of a chunk: at least `grain`, and four chunks a thread when there is enough to do.
TENON_API int64_t chunk_size(int64_t count, int64_t grain);
}  // namespace detail

/// Calls f(b, e) for ranges that together make up [begin, end), none smaller than `grain` but the last. Blocks until
/// all are done. When f throws, chunks not yet begun are skipped and the first exception is rethrown here.
/// After fork(), the child starts its own workers at the next call.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  const int64_t count = end - begin;
  if (count <= 0) return;
  const int64_t size = count <= grain ? count : detail::chunk_size(count, grain);
  if (size >= count) {
    f(begin, end);
    return;
  }
  struct Context {
    std::remove_reference_t<F>& f;
    int64_t begin, end, size;
  } context{f, begin, end, size};
  detail::run_chunks((count + size - 1) / size,
                     [](void* p, int64_t chunk) {
                       const Context& c = *static_cast<Context*>(p);
                       const int64_t b = c.begin + chunk * c.size;
                       c.f(b, b + c.size < c.end ? b + c.size : c.end);
                     },
                     &context);
}

}  // namespace tenon
