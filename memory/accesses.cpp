// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>
#include <tenon/memory/accesses.h>
#include <tenon/memory/all_pools.h>
#include <tenon/memory/caching_allocator.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/safety.h>
#include <tenon/streams/settle.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace tenon::memory {
namespace {

using detail::StreamOrder;
using detail::StreamPoint;

constexpr std::size_t kPruned = 8, kMerged = 32;  // lengths of a record at which it is shortened

Block* block_of(const StorageImpl* s) { return static_cast<Block*>(s->context()); }
std::string name_of(const char* op) {
  return op ? std::string(op, std::strcspn(op, "(")) : std::string("an allocation");
}
std::string name_of(const Stream& s) {
  if (s.device().is_cpu()) return "the host";
  return s.id() == 0 ? s.device().str() + " default stream" : detail::concat(s.device(), " stream ", s.id());
}

// ---- places, when they are kept: the last ones ----

constexpr uint32_t kSites = 1 << 14;
struct KeptSite {
  uint32_t number = 0;
  AccessSite site;
};
std::vector<KeptSite>& kept_sites() {  // under the order's lock
  static auto* const list = new std::vector<KeptSite>(kSites);
  return *list;
}
AccessSite here() {
  AccessSite site;
  site.depth = capture_stack(site.frames, kSiteFrames);
  return site;
}
uint32_t keep(const StreamOrder::Lock&, const AccessSite& site) {
  static uint32_t last = 0;
  if (++last == 0) ++last;
  kept_sites()[last % kSites] = {last, site};
  return last;
}
std::string text_of(const AccessSite& site) {
  return site_text({site.frames, static_cast<std::size_t>(site.depth)}, 1);
}

std::string place_of(uint32_t number) {
  if (number == 0) return {};
  AccessSite site;
  {
    const StreamOrder::Lock lock;
    const KeptSite& kept = kept_sites()[number % kSites];
    if (kept.number == number) site = kept.site;
  }
  return site.depth > 0 ? text_of(site) : std::string();
}
std::string describe(const MemoryAccess& a, const Stream& stream) { return name_of(a.op) + " on " + name_of(stream); }

// ---- records ----

void add(const StreamOrder::Lock& lock, std::vector<MemoryAccess>& list, const MemoryAccess& a) {
  // What a write covers comes before it; a read covers its own stream's reads.
  std::erase_if(list, [&](const MemoryAccess& e) {
    const bool covered = a.begin <= e.begin && e.end <= a.end;
    return covered && (a.write || (!e.write && e.point.stream == a.point.stream));
  });
  if (list.size() >= kPruned)
    std::erase_if(list, [&](const MemoryAccess& e) { return StreamOrder::done(lock, e.point); });
  if (list.size() >= kMerged) {
    for (MemoryAccess& e : list) {
      if (e.write != a.write || e.point.stream != a.point.stream) continue;
      const int64_t begin = std::min(a.begin, e.begin), end = std::max(a.end, e.end);
      e = a;
      e.begin = begin, e.end = end;
      return;
    }
  }
  list.push_back(a);
}

struct Conflict {
  const Touch* touch;
  MemoryAccess access;
  Stream stream;
};

/// What one look at the touches tells.
struct Findings {
  std::vector<Conflict> conflicts;
  std::vector<Block*> foreign;  ///< touched by a stream that is not their own, for the first time
};

// All that is not ordered before the touches; without any, or when they are to be ignored, notes them.
Findings look(std::span<const Touch> touches, const char* op, bool ignore = false, const AccessSite* site = nullptr) {
  Findings found;
  const StreamOrder::Lock lock;
  for (const Touch& t : touches) {
    const AccessRecord* record = block_of(t.storage)->accesses;
    if (!record || ignore) continue;
    const bool host = t.stream.device().is_cpu();
    const uint32_t by = host ? 0 : StreamOrder::number(lock, t.stream);
    for (const MemoryAccess& a : record->list) {
      if (!(a.write || t.write) || a.end <= t.begin || t.end <= a.begin) continue;
      if (host ? StreamOrder::done(lock, a.point) : StreamOrder::passed(lock, a.point, by)) continue;
      found.conflicts.push_back({&t, a, StreamOrder::stream_of(lock, a.point.stream)});
    }
  }
  if (!found.conflicts.empty()) return found;
  const uint32_t kept = site ? keep(lock, *site) : 0;
  for (const Touch& t : touches) {
    if (t.stream.device().is_cpu()) continue;  // done when the operator returns
    Block* const block = block_of(t.storage);
    if (!block->accesses) block->accesses = new AccessRecord;
    AccessRecord& record = *block->accesses;
    const uint32_t by = StreamOrder::number(lock, t.stream);
    add(lock, record.list, {{by, StreamOrder::tick(by)}, t.write, kept, op, t.begin, t.end});
    if (record.foreign || t.storage->pinned() || block->pool->stream == t.stream) continue;
    record.foreign = true;
    found.foreign.push_back(block);
  }
  return found;
}

// Note [Reuse]: sends the free of the block the slow way.
void mark_foreign(Block* block) {
  auto* use = new StreamUse{Stream(), Event(), block, nullptr, true};
  PoolGuard guard(block->pool);
  for (const StreamUse* u = block->uses; u; u = u->next) {
    if (!u->inferred) continue;
    delete use;
    return;
  }
  use->next = block->uses;
  block->uses = use;
}

std::string places(const MemoryAccess& earlier) {
  std::string text = "\n  at " + text_of(here());
  if (const std::string other = place_of(earlier.site); !other.empty()) text += "; the other at " + other;
  return text;
}

[[noreturn]] void raise(const Conflict& c, const char* op) {
  const Touch& t = *c.touch;
  const bool host = t.stream.device().is_cpu();
  detail::count_race();
  detail::fail<RaceError>(
      name_of(op), ": ", t.argument.empty() ? "memory" : t.argument, t.write ? " is written" : " is read", " on ",
      name_of(t.stream), " while ", describe(c.access, c.stream), " may still ", c.access.write ? "write" : "read",
      " it; nothing puts the two in order", places(c.access),
      host ? "\n  Wait first (Stream::synchronize, Event::synchronize), or set_stream_safety(StreamSafety::automatic)."
           : "\n  Let one stream wait for the other (wait_stream, wait_event), or "
             "set_stream_safety(StreamSafety::automatic).");
}

void mend(const std::vector<Conflict>& conflicts) {
  std::vector<std::pair<Stream, Stream>> waited;
  for (const Conflict& c : conflicts) {
    const std::pair<Stream, Stream> pair(c.touch->stream, c.stream);
    if (std::find(waited.begin(), waited.end(), pair) != waited.end()) continue;
    waited.push_back(pair);
    if (pair.first.is_capturing() != pair.second.is_capturing()) continue;  // the driver would refuse
    detail::count_race();
    if (pair.first.device().is_cpu())
      pair.second.synchronize();
    else
      pair.first.wait_stream(pair.second);
  }
}

// Somebody reads host memory that a copy may still write to.
void await_copy(StorageImpl* storage) {
  if (detail::in_device_work()) return;  // a host callback comes behind what its stream did before
  const StreamSafety mode = stream_safety();
  if (mode == StreamSafety::off || !is_tracked(storage)) return storage->set_in_flight(false);
  const Touch touch{storage, Stream(), 0, storage->bytes(), false, "host memory"};
  const Findings found = look({&touch, 1}, nullptr);
  if (!found.conflicts.empty()) {
    if (mode == StreamSafety::check) raise(found.conflicts[0], current_operator ? current_operator : "data_ptr");
    detail::count_race();
    block_of(storage)->accesses->landed.synchronize();
    mend(look({&touch, 1}, nullptr).conflicts);  // copies of two streams: one event knows one of them
  }
  storage->set_in_flight(false);
}
[[maybe_unused]] const bool hooked = (detail::set_await_device(&await_copy), true);

}  // namespace

bool is_tracked(const StorageImpl* s) noexcept {
  return s && s->data() && s->owned_by(&CachingAllocator::release) && (!s->device().is_cpu() || s->pinned());
}

void touch(std::span<const Touch> touches, const char* op) {
  AccessSite place;
  const AccessSite* site = nullptr;
  if (detail::safety_sites()) [[unlikely]] {
    place = here();
    site = &place;
  }
  Findings found = look(touches, op, false, site);
  if (!found.conflicts.empty()) [[unlikely]] {
    if (stream_safety() == StreamSafety::check) raise(found.conflicts[0], op);
    mend(found.conflicts);
    found = look(touches, op, true, site);
  }
  for (Block* block : found.foreign) mark_foreign(block);
}

void touch_fresh(Block* block, const Stream& stream) noexcept {
  try {
    AccessSite place;
    if (detail::safety_sites()) place = here();
    const StreamOrder::Lock lock;
    if (!block->accesses) block->accesses = new AccessRecord;
    const uint32_t by = StreamOrder::number(lock, stream), kept = place.depth > 0 ? keep(lock, place) : 0;
    block->accesses->list.clear();
    block->accesses->foreign = false;
    block->accesses->list.push_back({{by, StreamOrder::tick(by)}, true, kept, current_operator, 0, block->requested});
  } catch (...) {  // no memory for the record
    drop_accesses(block);
  }
}

void note_landing(StorageImpl* storage, const Stream& stream) {
  if (AccessRecord* record = block_of(storage)->accesses) record->landed.record(stream);
  storage->set_in_flight(true);
}

// ---- memory that goes back: Note [Reuse] ----

void drop_accesses(Block* block) noexcept { delete std::exchange(block->accesses, nullptr); }

void CachingAllocator::settle_accesses(Block* block) noexcept {
  StreamUse** link = &block->uses;
  while (*link && !(*link)->inferred) link = &(*link)->next;
  StreamUse* const mark = *link;
  if (!mark) return;
  *link = mark->next;
  delete mark;
  const StreamSafety mode = stream_safety();
  std::vector<Stream> forgotten;
  try {
    std::vector<Suspects::Range> suspects;
    if (mode != StreamSafety::off && block->accesses) {
      const StreamOrder::Lock lock;
      const uint32_t owner = StreamOrder::number(lock, block->pool->stream);
      for (const MemoryAccess& a : block->accesses->list) {
        if (StreamOrder::passed(lock, a.point, owner)) continue;
        const Stream stream = StreamOrder::stream_of(lock, a.point.stream);
        bool known = false;
        for (const StreamUse* u = block->uses; u && !known; u = u->next) known = u->stream == stream;
        if (known) continue;
        forgotten.push_back(stream);
        suspects.push_back({block->ptr + a.begin, block->ptr + a.end, a, stream});
      }
      if (mode == StreamSafety::check) {
        suspects_.list.insert(suspects_.list.end(), suspects.begin(), suspects.end());
        suspects_.count();
      }
    }
    if (mode == StreamSafety::automatic) {
      for (const Stream& stream : forgotten) {
        detail::count_race();
        record_stream(block, stream);
      }
    } else if (!suspects.empty()) {
      PoolGuard guard(block->pool);
      block->pool->fast_limit = 0;
    }
  } catch (...) {  // no memory for the books
    for (const Stream& stream : forgotten) (void)detail::settle(stream);
  }
  drop_accesses(block);
}

void Suspects::forget(const char* begin, int64_t bytes) noexcept {
  if (empty()) return;
  const StreamOrder::Lock lock;
  std::erase_if(list, [&](const Range& r) { return r.begin < begin + bytes && begin < r.end; });
  count();
}

// The block was just taken for `stream` and goes back when somebody else may be using its memory.
void CachingAllocator::check_reuse(Block* block, const Stream& stream) {
  std::vector<Suspects::Range> found;
  bool none_left = false;
  {
    const StreamOrder::Lock lock;
    const uint32_t by = StreamOrder::number(lock, stream);
    const bool checking = stream_safety() == StreamSafety::check;
    std::erase_if(suspects_.list, [&](const Suspects::Range& s) {
      if (!checking || StreamOrder::done(lock, s.access.point)) return true;
      if (s.end <= block->ptr || block->ptr + block->size <= s.begin) return false;
      if (!StreamOrder::passed(lock, s.access.point, by)) found.push_back(s);
      return true;
    });
    suspects_.count();
    none_left = suspects_.empty();
  }
  if (none_left) {
    const AllPools all(*this);
    for (StreamPool* pool : pools_) choose_fast_path(pool);
  }
  if (found.empty()) return;
  free(block);
  detail::count_race();
  const Suspects::Range& s = found[0];
  detail::fail<RaceError>(
      name_of(current_operator ? current_operator : "allocate"), ": gets memory on ", name_of(stream), " while ",
      describe(s.access, s.stream), " may still ", s.access.write ? "write" : "read",
      " it: it was given back without record_stream", places(s.access),
      "\n  Call record_stream with that stream before the tensor goes, or set_stream_safety(StreamSafety::automatic).");
}

}  // namespace tenon::memory
