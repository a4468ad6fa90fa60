// SPDX-License-Identifier: Apache-2.0
#include <tenon/kernels/cuda/cudnn.h>

#ifndef TENON_HAVE_CUDNN
bool tenon::cuda::convolve_by_cudnn(const Tensor&, const Tensor&, const Tensor&, const ConvolutionGeometry&) {
  return false;
}
#else

#include <tenon/dispatch/deterministic.h>
#include <tenon/kernels/cuda/cublaslt.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/ops/matmul.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/stream.h>

#include <cudnn_backend.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::cuda {
namespace {

constexpr int kSlots = 256;          // plans per thread
constexpr int kMostCandidates = 16;  // engines asked for; timed under benchmark()
constexpr int64_t kMostWorkspace = int64_t{1} << 30;

// clang-format off
#define TENON_CUDNN_FUNCTIONS(F)                                                                              \
  F(Create) F(Destroy) F(SetStream) F(GetVersion)                                                             \
  F(BackendCreateDescriptor) F(BackendDestroyDescriptor) F(BackendSetAttribute) F(BackendGetAttribute)        \
  F(BackendFinalize) F(BackendExecute)
// clang-format on
struct Library {
#define TENON_MEMBER(name) decltype(&cudnn##name) name;
  TENON_CUDNN_FUNCTIONS(TENON_MEMBER)
#undef TENON_MEMBER
};

// Null when it cannot be had, or is not the version the enumerations are of.
const Library* load() {
  std::vector<std::string> files;
  if (const char* file = std::getenv("TENON_CUDNN"); file && *file) {
    files.emplace_back(file);
  } else {
    files.emplace_back("libcudnn.so.9");
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* folder = std::getenv(variable); folder && *folder)
        files.push_back(std::string(folder) + "/lib64/libcudnn.so.9");
    files.emplace_back("/usr/local/cuda/lib64/libcudnn.so.9");
  }
  for (const std::string& file : files) {
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    auto library = std::make_unique<Library>();
    bool complete = true;
#define TENON_FIND(name)                                                                   \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(handle, "cudnn" #name)); \
  complete = complete && library->name;
    TENON_CUDNN_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
    if (complete && library->GetVersion() / 10000 == CUDNN_MAJOR) return library.release();  // for the process' life
    dlclose(handle);
  }
  return nullptr;
}
const Library* library() {
  static const Library* const loaded = load();
  return loaded;
}

// A handle of the calling thread for a device; handles of threads that ended are used again, none is destroyed.
class Handles {
 public:
  cudnnHandle_t get(int device) {
    cudnnHandle_t& own = handles_[device];
    if (own) return own;
    {
      const std::lock_guard lock(mutex());
      auto& spare = pool()[device];
      if (!spare.empty()) {
        own = spare.back();
        spare.pop_back();
        return own;
      }
    }
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    TENON_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    if (library()->Create(&own) != CUDNN_STATUS_SUCCESS) own = nullptr;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return own;
  }
  ~Handles() {
    const std::lock_guard lock(mutex());
    for (int i = 0; i < kMaxDevices; ++i)
      if (handles_[i]) pool()[i].push_back(handles_[i]);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex* const m = new std::mutex;
    return *m;
  }
  static std::vector<cudnnHandle_t>* pool() {
    static auto* const p = new std::vector<cudnnHandle_t>[kMaxDevices];
    return p;
  }
  cudnnHandle_t handles_[kMaxDevices] = {};
};

// A backend descriptor, built by chained set() calls; `ok` turns false at the first that fails.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    ok_ = library()->BackendCreateDescriptor(type, &handle_) == CUDNN_STATUS_SUCCESS;
  }
  ~Descriptor() {
    if (handle_) library()->BackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)), ok_(o.ok_) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(handle_, o.handle_);
    std::swap(ok_, o.ok_);
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values,
                  int64_t count = 1) {
    ok_ = ok_ && library()->BackendSetAttribute(handle_, name, type, count, values) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    ok_ = ok_ && part.ok_;
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &part.handle_);
  }
  Descriptor& finalize() {
    ok_ = ok_ && library()->BackendFinalize(handle_) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  /// How many of `most` values there were.
  template <class T>
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T* values, int64_t most = 1) const {
    int64_t count = 0;
    const bool done =
        ok_ && library()->BackendGetAttribute(handle_, name, type, most, &count, values) == CUDNN_STATUS_SUCCESS;
    return done ? std::min(count, most) : 0;
  }
  bool ok() const { return ok_; }
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
  bool ok_ = false;
};

// All that a plan depends on. Sides as the geometry calls them.
struct Key {
  int64_t big[5], small[5], weight[5];
  int64_t big_strides[5], small_strides[5], weight_strides[5];
  int64_t stride[3], padding[3], behind[3], dilation[3];
  int64_t align[3];  // bytes, of big, small, weight
  uint8_t part, dtype, tf32, deterministic, device, benchmark, unused[2];

  bool operator==(const Key& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
  uint64_t hash() const {
    uint64_t words[sizeof(Key) / 8], h = 0x9E3779B97F4A7C15u;
    static_assert(sizeof words == sizeof(Key));
    std::memcpy(words, this, sizeof words);
    for (const uint64_t w : words) h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return h;
  }
};

struct Pointers {
  void *big, *small, *weight;
};

struct Plan {
  Key key{};
  bool used = false;
  Descriptor plan;  // not ok: cuDNN cannot do it
  int64_t workspace = 0;

  void build(const Key& k, cudnnHandle_t handle, const Pointers& data, cudaStream_t stream);
  bool run(cudnnHandle_t handle, const Pointers& p) const {
    const Workspace memory(workspace);
    void* const pointers[] = {p.big, p.small, p.weight};
    const int64_t ids[] = {'x', 'y', 'w'};
    void* const scratch = memory.data();
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers, 3)
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids, 3)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &scratch)
        .finalize();
    return pack.ok() && library()->BackendExecute(handle, plan.handle(), pack.handle()) == CUDNN_STATUS_SUCCESS;
  }
};

cudnnDataType_t data_type(DType t) {
  switch (t) {
    case kFloat64:
      return CUDNN_DATA_DOUBLE;
    case kFloat16:
      return CUDNN_DATA_HALF;
    case kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// Without the depth dimension where all tensors lack it: cuDNN has more engines for 4 dimensions.
Descriptor tensor_of(const int64_t (&sizes)[5], const int64_t (&strides)[5], int64_t dims, int64_t align, DType dtype,
                     int64_t id) {
  const cudnnDataType_t type = data_type(dtype);
  int64_t n[5] = {sizes[0], sizes[1]}, s[5] = {strides[0], strides[1]};
  for (int64_t d = 2; d < dims; ++d) n[d] = sizes[d + 5 - dims], s[d] = strides[d + 5 - dims];
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, n, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, s, dims)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &align)
      .finalize();
  return t;
}

struct Names {
  cudnnBackendDescriptorType_t node;
  cudnnBackendAttributeName_t alpha, beta, convolution, big, small, weight;
};
constexpr Names kNames[] = {  // in the order of ConvolutionPart
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}};

// Whether an engine may be used for `k`.
bool allowed(const Descriptor& config, const Key& k) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t part = engine.handle();
  if (config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &part) != 1) return false;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  for (int64_t i = 0; i < count; ++i) {
    if (k.deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return false;
    if (k.dtype != static_cast<uint8_t>(kFloat32)) continue;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) return false;
    if (!k.tf32 && notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;
  }
  return true;
}

void Plan::build(const Key& k, cudnnHandle_t handle, const Pointers& data, cudaStream_t stream) {
  key = k;
  used = true;
  plan = Descriptor();
  const auto dtype = static_cast<DType>(k.dtype);
  const bool flat = k.big[2] == 1 && k.small[2] == 1 && k.weight[2] == 1 && k.padding[0] == 0 && k.behind[0] == 0;
  const int64_t dims = flat ? 4 : 5, spatial = dims - 2, skip = flat ? 1 : 0;
  const Descriptor big = tensor_of(k.big, k.big_strides, dims, k.align[0], dtype, 'x'),
                   small = tensor_of(k.small, k.small_strides, dims, k.align[1], dtype, 'y'),
                   weight = tensor_of(k.weight, k.weight_strides, dims, k.align[2], dtype, 'w');
  const cudnnDataType_t compute = dtype == kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &spatial)
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &compute)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, k.padding + skip, spatial)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, k.behind + skip, spatial)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, k.dilation + skip, spatial)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, k.stride + skip, spatial)
      .finalize();
  const Names& names = kNames[k.part];
  Descriptor node(names.node);
  node.set(names.convolution, convolution).set(names.big, big).set(names.small, small).set(names.weight, weight);
  const double one = 1, zero = 0;
  const float one_float = 1, zero_float = 0;
  if (dtype == kFloat64)
    node.set(names.alpha, CUDNN_TYPE_DOUBLE, &one).set(names.beta, CUDNN_TYPE_DOUBLE, &zero);
  else
    node.set(names.alpha, CUDNN_TYPE_FLOAT, &one_float).set(names.beta, CUDNN_TYPE_FLOAT, &zero_float);
  node.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, node)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle)
      .finalize();
  if (!graph.ok()) return;

  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  TENON_CUDA(cudaStreamIsCapturing(stream, &capture));
  const bool timed = k.benchmark && capture == cudaStreamCaptureStatusNone;
  float best = 0;
  for (const cudnnBackendHeurMode_t by : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &by)
        .finalize();
    std::vector<Descriptor> configs;
    cudnnBackendDescriptor_t handles[kMostCandidates];
    for (auto& h : handles) h = configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle();
    const int64_t count =
        heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles, kMostCandidates);
    for (int64_t i = 0; i < count; ++i) {
      const Descriptor& config = configs[static_cast<std::size_t>(i)];
      if (!allowed(config, k)) continue;
      Plan candidate;
      candidate.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      candidate.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
          .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle)
          .finalize();
      if (!candidate.plan.ok()) continue;
      if (candidate.plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &candidate.workspace) != 1 ||
          candidate.workspace > kMostWorkspace)
        continue;
      if (!timed) {
        plan = std::move(candidate.plan), workspace = candidate.workspace;
        return;
      }
      cudaEvent_t begin = nullptr, end = nullptr;
      TENON_CUDA(cudaEventCreate(&begin));
      TENON_CUDA(cudaEventCreate(&end));
      bool ran = candidate.run(handle, data);  // the first run loads code
      TENON_CUDA(cudaEventRecord(begin, stream));
      for (int r = 0; ran && r < 3; ++r) ran = candidate.run(handle, data);
      TENON_CUDA(cudaEventRecord(end, stream));
      TENON_CUDA(cudaEventSynchronize(end));
      float time = 0;
      TENON_CUDA(cudaEventElapsedTime(&time, begin, end));
      (void)cudaEventDestroy(begin);
      (void)cudaEventDestroy(end);
      if (ran && (!plan.ok() || time < best))
        plan = std::move(candidate.plan), workspace = candidate.workspace, best = time;
    }
    if (plan.ok()) return;
  }
}

}  // namespace

bool convolve_by_cudnn(const Tensor& out, const Tensor& a, const Tensor& b, const ConvolutionGeometry& g) {
  if (!backends::cudnn::enabled() || !library()) return false;
  const bool is_weight = g.part == ConvolutionPart::weight, is_small = g.part == ConvolutionPart::small;
  const Tensor &big = is_weight || is_small ? a : out,
               &small = is_small    ? out
                        : is_weight ? b
                                    : a,
               &weight = is_weight ? out : b;
  Key k{};
  for (std::size_t d = 0; d < 5; ++d) {
    k.big[d] = big.sizes()[d], k.small[d] = small.sizes()[d], k.weight[d] = weight.sizes()[d];
    k.big_strides[d] = big.strides()[d], k.small_strides[d] = small.strides()[d];
    k.weight_strides[d] = weight.strides()[d];
  }
  for (std::size_t d = 0; d < 3; ++d) {
    k.stride[d] = g.stride[d], k.padding[d] = g.padding[d], k.dilation[d] = g.dilation[d];
    const int64_t reach = (k.weight[d + 2] - 1) * k.dilation[d] + 1;
    k.behind[d] = std::max<int64_t>(0, (k.small[d + 2] - 1) * k.stride[d] + reach - k.big[d + 2] - k.padding[d]);
    // Where cuDNN's rule for sizes does not lead from big to small there is nothing it could do.
    if ((k.big[d + 2] + k.padding[d] + k.behind[d] - reach) / k.stride[d] + 1 != k.small[d + 2]) return false;
  }
  const Tensor* const all[] = {&big, &small, &weight};
  for (int i = 0; i < 3; ++i) k.align[i] = std::min<int64_t>(16, alignment(all[i]->data_ptr(), 0));
  k.part = static_cast<uint8_t>(g.part);
  k.dtype = static_cast<uint8_t>(out.dtype());
  k.tf32 = backends::cudnn::allow_tf32() || tenon::allow_tf32();
  k.deterministic = backends::cudnn::deterministic() || is_deterministic();
  k.device = static_cast<uint8_t>(out.device().index());
  k.benchmark = backends::cudnn::benchmark();

  static thread_local Handles handles;
  static thread_local std::unique_ptr<Plan[]> plans;
  const cudnnHandle_t handle = handles.get(out.device().index());
  const Stream current = current_stream(out.device());
  const auto stream = static_cast<cudaStream_t>(current.handle());
  if (!handle || library()->SetStream(handle, stream) != CUDNN_STATUS_SUCCESS) return false;
  if (!plans) plans = std::make_unique<Plan[]>(kSlots);
  Plan& plan = plans[k.hash() % kSlots];
  const Pointers data{big.data_ptr(), small.data_ptr(), weight.data_ptr()};
  if (!plan.used || !(plan.key == k)) plan.build(k, handle, data, stream);
  if (!plan.plan.ok()) return false;
  const uint64_t number = tenon::detail::note_launch(current, "cudnnBackendExecute", tenon::detail::literal_name);
  if (!plan.run(handle, data)) return false;
  if (number != 0) [[unlikely]]
    tenon::detail::fence_launch(current, number);
  if (launch_blocking()) [[unlikely]]
    TENON_CUDA(cudaStreamSynchronize(stream));
  return true;
}

}  // namespace tenon::cuda
#endif
