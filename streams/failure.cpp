// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/state.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::detail {

constinit uint64_t failed_devices = 0;

namespace {

// First causes are kept for good: whoever reads one may still hold it when its device starts anew.
struct Cause {
  std::string text, op;
  int stream;
  Cause* older;
};
constinit Cause* causes[kDeviceSlots]{};  // atomic
constinit Cause* older_causes = nullptr;  // atomic; of devices that work again
using NumbersOf = void (*)(Device, MemoryNumbers&);
using NotesOf = std::string (*)(int device);
constinit NumbersOf memory_numbers = nullptr;  // atomic
constinit NotesOf fault_notes = nullptr;       // atomic

template <class T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}

// cudaError_t, of which the CPU library has no header. The numbers are part of CUDA's interface.
enum : int {
  kInsufficientDriver = 35,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNoKernelImage = 209,
  kInvalidPtx = 218,
  kJitCompilerNotFound = 221,
  kUnsupportedPtx = 222,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStack = 714,
  kLaunchFailure = 719,
  kNotPermitted = 800,
  kFirstCaptureError = 900,
  kLastCaptureError = 908,
};

// Faults inside kernels. They are reported by whatever call comes next and leave the context unusable.
bool is_kernel_fault(int error) {
  return error == kIllegalAddress || error == kLaunchTimeout || error == kAssert ||
         (error >= kHardwareStack && error <= kLaunchFailure);
}

bool is_arch_error(int error) {
  return error == kNoKernelImage || error == kInvalidDeviceFunction || error == kInvalidPtx ||
         error == kUnsupportedPtx || error == kJitCompilerNotFound;
}

std::string hint(int error) {
  if (error == kInvalidDevice) return concat("\n  Devices visible: ", cuda::device_count(), ".");
  if (error == kLaunchOutOfResources) {
    return "\n  The kernel needs more registers or shared memory than a block may have.";
  }
  return {};
}

std::string operator_name() {
  const std::string_view schema = current_operator ? current_operator : "";
  return std::string(schema.substr(0, schema.find('(')));
}

// The last three parts tell files apart; build folders only make lines long.
std::string_view short_path(std::string_view path) {
  size_t cut = path.size();
  for (int parts = 0; parts < 3; ++parts) {
    cut = cut == 0 ? std::string_view::npos : path.rfind('/', cut - 1);
    if (cut == std::string_view::npos) return path;
  }
  return path.substr(cut + 1);
}

[[noreturn]] void fail_arch(const std::string& where, const std::string& head, int index) {
  cuda::DeviceProperties properties;
  RawStreams* streams = registered_raw_streams(kCUDA);
  if (!streams || !streams->device_properties(index, properties)) fail<ArchError>(head);
  const std::string list = streams->arch_list();
  if (!cuda::arch_list_covers(list, properties.major, properties.minor)) {
    fail<ArchError>(where, cuda::arch_message(list, index, properties.name, properties.major, properties.minor));
  }
  // tenon's own kernels would run: this one comes from a library built for other cards.
  fail<ArchError>(head, "\n  The library with this kernel has no code for compute capability ", properties.major, ".",
                  properties.minor, "; rebuild it with -DCMAKE_CUDA_ARCHITECTURES=", properties.major, properties.minor,
                  ".");
}

std::string one_line(std::string text) {
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;) {
    const std::size_t end = text.find_first_not_of(" \n", at);
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, end == std::string::npos ? "" : ", ");
  }
  return text;
}

int current_stream_id(Device device) { return device.has_index() ? thread_state.streams[slot_of(device)].id : -1; }

// What both kinds of errors know. `ask`: the driver may be asked for its memory.
CudaFailure failure_of(Device device, int code, const char* name, const char* file, int line, bool ask) {
  CudaFailure f;
  f.code = code;
  f.name = name;
  f.op = operator_name();
  if (file) f.file = short_path(file);
  f.line = file ? line : -1;
  f.device = device.index();
  f.stream = current_stream_id(device);
  if (!device.has_index() || !device.is_cuda()) return f;
  static thread_local bool asking = false;  // the question may fail, too
  if (asking) return f;
  asking = true;
  try {
    if (const auto numbers = load(memory_numbers)) numbers(device, f.memory);
    RawStreams* streams = ask && !thread_state.in_callback ? registered_raw_streams(kCUDA) : nullptr;
    if (streams && current_device(kCUDA) == device.index())
      streams->memory_info(device.index(), f.memory.free, f.memory.total);
  } catch (const std::exception&) {  // unknown then
  }
  asking = false;
  return f;
}

std::string memory_text(Device device, const MemoryNumbers& m) {
  if (m.total == 0 && m.reserved == 0) return {};
  Message text;
  text << "Memory of " << device.str() << ": " << m.allocated << " bytes in tensors, " << m.reserved << " reserved";
  if (m.total > 0) text << ", " << m.free << " of " << m.total << " free";
  return text.take() + "\n";
}

}  // namespace

std::string launches_text(Device device) {
  std::string text;
  try {
    for (const Launch& l : last_launches()) {
      if (!device.is_cpu() && device.has_index() && l.device != device) continue;
      text += "  " + l.str() + "\n";
    }
  } catch (const std::exception&) {  // what there is
  }
  return text.empty() ? text : "Last launches, newest first:\n" + text;
}

void fail_broken(Device device, const char* call) {
  const Cause* cause = load(causes[slot_of(device)]);
  const std::string op = operator_name();
  const std::string text = cause ? cause->text : "an earlier fault";
  CudaFailure f = failure_of(device, 0, "", nullptr, -1, false);
  if (cause && !cause->op.empty()) f.op = cause->op, f.stream = cause->stream;
  f.report = "First cause: " + text + "\n" + launches_text(device);
  throw CudaError(concat(op, op.empty() ? "" : ": ", call, ": ", device.str(),
                         " is broken and cannot be used\n  First cause: ", text),
                  std::move(f));
}

void fail_fault(const Fault& fault) {
  const Device device = fault.device;
  Cause*& slot = causes[slot_of(device)];
  const std::string op = operator_name();
  Message head;
  head << op << (op.empty() ? "" : ": ") << fault.call << ": " << fault.name << " " << fault.code << " (" << fault.text
       << ")\n  ";
  if (fault.file) head << "at " << short_path(fault.file) << ":" << fault.line << " ";
  head << "on " << device.str();
  std::string text = head.take();
  CudaFailure f = failure_of(device, fault.code, fault.name, fault.file, fault.line, false);
  if (const Cause* first = load(slot)) {
    if (!first->op.empty()) f.op = first->op, f.stream = first->stream;
    f.report = "First cause: " + first->text + "\n" + launches_text(device);
    throw CudaError(text + "\n  The device is broken; first cause: " + first->text, std::move(f));
  }

  const std::vector<Launch> blamed = suspects(device);
  const auto notes = load(fault_notes);
  const std::string note = notes && device.is_cuda() && device.has_index() ? notes(device.index()) : std::string();
  const char* const again = device.is_sim() ? "call sim::configure or reset to use the device again"
                                            : "the process must be restarted to use the device again";
  std::string why;
  if (!note.empty()) {
    why = "A kernel wrote: " + note;
  } else if (blamed.size() == 1) {
    f.op = blamed[0].op.empty() ? blamed[0].kernel : blamed[0].op;
    f.stream = blamed[0].stream;
    why = concat("Made by ", blamed[0].str(), "; ", again, ".");
  } else if (blamed.size() > 1) {
    Message list;
    for (const Launch& l : blamed) list << (&l == &blamed[0] ? "" : ", or ") << l.op << " on stream " << l.stream;
    why = concat("Made by ", list.take(), "; ", again, ".");
  } else if (device.is_cuda() && cuda::launch_blocking()) {
    why = "The process must be restarted before it can use this device again.";
  } else {
    std::string last;
    int shown = 0;
    for (const Launch& l : last_launches(16)) {
      if (l.device != device || shown == 3) continue;
      last += (shown++ == 0 ? "" : ", ") + (l.op.empty() ? l.kernel : l.op);
    }
    why = "An earlier kernel may be the cause" + (last.empty() ? last : " (last: " + last + ")") + "; run with " +
          (device.is_sim() ? "TENON_BLAME=1" : "TENON_BLAME=1 or CUDA_LAUNCH_BLOCKING=1") + " to see which.";
  }
  for (const Launch& l : blamed)
    f.report += (&l == &blamed[0] ? "Unfinished, oldest of each stream:\n  " : "  ") + l.str() + "\n";
  f.report += launches_text(device) + memory_text(device, f.memory);
  text += "\n  " + why;
  auto* cause = new Cause{one_line(text), blamed.size() == 1 ? f.op : std::string(), f.stream, nullptr};
  Cause* none = nullptr;
  if (!__atomic_compare_exchange_n(&slot, &none, cause, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) delete cause;
  __atomic_fetch_or(&failed_devices, uint64_t{1} << slot_of(device), __ATOMIC_RELEASE);
  throw CudaError(text, std::move(f));
}

void clear_failures(DeviceType type) noexcept {
  for (int i = 0; i < kMaxDevices; ++i) {
    const int slot = slot_of(Device(type, i));
    __atomic_fetch_and(&failed_devices, ~(uint64_t{1} << slot), __ATOMIC_RELEASE);
    Cause* cause = __atomic_exchange_n(&causes[slot], nullptr, __ATOMIC_ACQ_REL);
    if (!cause) continue;
    cause->older = load(older_causes);
    while (
        !__atomic_compare_exchange_n(&older_causes, &cause->older, cause, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
  }
}

void set_memory_numbers(void (*numbers)(Device, MemoryNumbers&)) noexcept {
  __atomic_store_n(&memory_numbers, numbers, __ATOMIC_RELEASE);
}
void set_fault_notes(std::string (*notes)(int)) noexcept { __atomic_store_n(&fault_notes, notes, __ATOMIC_RELEASE); }

void fail_cuda(int error, const char* call, const char* file, int line) {
  std::string where = operator_name();
  if (!where.empty()) where += ": ";
  if (forked_after_cuda() || error == kNoDevice || error == kInsufficientDriver) {
    const cuda::CudaAvailability a = cuda::availability();
    if (a.status != cuda::CudaStatus::available) {
      fail<DeviceError>(where, "cuda is unavailable: ", a.reason, "\n  ", a.remedy);
    }
  }
  const char* name = "cudaError";
  const char* text = "no further information";
  if (RawStreams* streams = registered_raw_streams(kCUDA)) streams->describe_error(error, name, text);
  // As this thread last set or asked for it; asking now might fail again.
  const int index = thread_state.device[static_cast<int>(kCUDA)] - 1;
  const Device device(kCUDA, index);
  // A thread that never asked is on the first one.
  if (is_kernel_fault(error)) fail_fault({Device(kCUDA, std::max(index, 0)), error, name, text, call, file, line});
  const std::string head =
      concat(where, call, ": ", name, " ", error, " (", text, ")\n  at ", short_path(file), ":", line, " on ", device);
  if (error == kNotPermitted && thread_state.in_callback) {
    fail<DeviceError>(head, "\n  A host callback of a stream must not call CUDA.");
  }
  if (is_arch_error(error)) fail_arch(where, head, index < 0 ? 0 : index);
  const bool capture = error >= kFirstCaptureError && error <= kLastCaptureError;
  CudaFailure f = failure_of(device, error, name, file, line, !capture);
  f.report = launches_text(device) + memory_text(device, f.memory);
  if (capture) throw CaptureError(head, std::move(f));
  throw CudaError(head + hint(error), std::move(f));
}

}  // namespace tenon::detail

namespace tenon {
std::string device_failure(Device device) {
  const auto* cause = detail::load(detail::causes[detail::slot_of(resolve(device))]);
  return cause ? cause->text : std::string();
}
}  // namespace tenon
