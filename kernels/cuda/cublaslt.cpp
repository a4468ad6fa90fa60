// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/op.h>
#include <tenon/kernels/cuda/cublaslt.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/stream.h>

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t(32) << 20;
constexpr int kSlots = 1024;  // plans per thread

// clang-format off
#define TENON_CUBLASLT_FUNCTIONS(F)                                                                                  \
  F(Create)                                                                                                          \
  F(GetStatusString)                                                                                                 \
  F(Matmul)                                                                                                          \
  F(MatmulAlgoGetHeuristic) F(MatmulDescCreate) F(MatmulDescDestroy) F(MatmulDescSetAttribute) F(MatrixLayoutCreate) \
      F(MatrixLayoutDestroy) F(MatrixLayoutSetAttribute) F(MatmulPreferenceCreate) F(MatmulPreferenceDestroy)        \
          F(MatmulPreferenceSetAttribute)
// clang-format on

struct Library {
#define TENON_MEMBER(name) decltype(&cublasLt##name) name;
  TENON_CUBLASLT_FUNCTIONS(TENON_MEMBER)
#undef TENON_MEMBER
};

std::vector<std::string> candidates() {
  if (const char* file = std::getenv("TENON_CUBLASLT"); file && *file) return {file};
  std::vector<std::string> files{"libcublasLt.so.13"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable); folder && *folder)
      files.push_back(std::string(folder) + "/lib64/libcublasLt.so.13");
  files.push_back("/usr/local/cuda/lib64/libcublasLt.so.13");
  return files;
}

// Null, with the reasons in `error`, when it cannot be had.
const Library* load(std::string& error) {
  for (const std::string& file : candidates()) {
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* reason = dlerror();
      error += std::string(error.empty() ? "" : "; ") + (reason ? reason : file.c_str());
      continue;
    }
    auto library = std::make_unique<Library>();
    const char* missing = nullptr;
#define TENON_FIND(name)                                                                      \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(handle, "cublasLt" #name)); \
  if (!library->name) missing = "cublasLt" #name;
    TENON_CUBLASLT_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
    if (!missing) return library.release();  // for the life of the process
    error += std::string(error.empty() ? "" : "; ") + file + " has no " + missing;
    dlclose(handle);
  }
  return nullptr;
}

const Library& library() {
  static std::string error;
  static const Library* const loaded = load(error);
  TENON_CHECK(loaded, LibraryError,
              "matrix products on CUDA need cuBLASLt 13, which could not be loaded\n  tried: ", error,
              "\n  Install CUDA's libcublas, or name the file in TENON_CUBLASLT.");
  return *loaded;
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const std::string_view op = current_operator ? current_operator : "matmul";
  tenon::detail::fail<LibraryError>(op.substr(0, op.find('(')), ": ", call,
                                    " failed: ", library().GetStatusString(status), " (", static_cast<int>(status),
                                    ")");
}
#define TENON_CUBLASLT(call) check(library().call, "cublasLt" #call)

// One per device, never destroyed.
cublasLtHandle_t handle(int device) {
  static std::mutex mutex;
  static cublasLtHandle_t handles[kMaxDevices];
  cublasLtHandle_t known = __atomic_load_n(&handles[device], __ATOMIC_ACQUIRE);
  if (known) [[likely]]
    return known;
  const std::lock_guard lock(mutex);
  if (handles[device]) return handles[device];
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  TENON_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  const cublasStatus_t status = library().Create(&known);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  check(status, "cublasLtCreate(handle)");
  __atomic_store_n(&handles[device], known, __ATOMIC_RELEASE);
  return known;
}

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};
Types types_of(DType t, bool tf32) {
  switch (t) {
    case kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case kComplex64:
      return {CUDA_C_32F, CUDA_C_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case kComplex128:
      return {CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F};
    case kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

// Descriptors of one product and the algorithm for it.
struct Plan {
  ProductKey key{};
  bool used = false, possible = false;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace = 0;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { clear(); }
  void clear() noexcept {
    if (operation) library().MatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t* layout : {&a, &b, &c, &d}) {
      if (*layout) library().MatrixLayoutDestroy(*layout);
      *layout = nullptr;
    }
    operation = nullptr;
    used = possible = false;
  }
  void build(const Product& product);
};

void make_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld,
                 int64_t batch, int64_t step) {
  TENON_CUBLASLT(MatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld));
  if (batch == 1) return;
  const auto count = static_cast<int32_t>(batch);
  TENON_CUBLASLT(MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  TENON_CUBLASLT(MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
}

struct Preference {
  cublasLtMatmulPreference_t handle = nullptr;
  Preference() { TENON_CUBLASLT(MatmulPreferenceCreate(&handle)); }
  ~Preference() { library().MatmulPreferenceDestroy(handle); }
  Preference(const Preference&) = delete;
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    TENON_CUBLASLT(MatmulPreferenceSetAttribute(handle, attribute, &value, sizeof value));
  }
};

void Plan::build(const Product& p) {
  clear();
  key = p.key;
  const Types types = types_of(static_cast<DType>(key.dtype), key.tf32 != 0);
  TENON_CUBLASLT(MatmulDescCreate(&operation, types.compute, types.scale));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    TENON_CUBLASLT(MatmulDescSetAttribute(operation, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, key.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  make_layout(a, types.data, key.a_transposed ? key.k : key.m, key.a_transposed ? key.m : key.k, key.a_ld, key.batch,
              key.a_step);
  make_layout(b, types.data, key.b_transposed ? key.n : key.k, key.b_transposed ? key.k : key.n, key.b_ld, key.batch,
              key.b_step);
  make_layout(c, types.data, key.m, key.n, key.c_ld, key.batch, key.c_step);
  make_layout(d, types.data, key.m, key.n, key.d_ld, key.batch, key.d_step);
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(key.a_align));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(key.b_align));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(key.c_align));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(key.d_align));
  // Partial sums of a product split along k are added in float, never in the 16-bit result type.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = library().MatmulAlgoGetHeuristic(handle(key.device), operation, a, b, c, d,
                                                                 preference.handle, 1, &result, &found);
  possible = status == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
    check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (possible) {
    algorithm = result.algo;
    workspace = static_cast<int64_t>(result.workspaceSize);
  }
  used = true;
}

Plan& plan_for(const Product& product) {
  static thread_local std::unique_ptr<Plan[]> plans;
  if (!plans) plans = std::make_unique<Plan[]>(kSlots);
  Plan& plan = plans[product.key.hash() % kSlots];
  if (!plan.used || !(plan.key == product.key)) [[unlikely]]
    plan.build(product);
  return plan;
}

}  // namespace

bool multiply(const Product& p) {
  const Library& lt = library();
  if (p.key.batch > INT32_MAX) return false;
  Plan& plan = plan_for(p);
  if (!plan.possible) return false;
  if (p.key.bias)
    TENON_CUBLASLT(MatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias));
  const Workspace workspace(plan.workspace);
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA, p.key.device)).handle());
  const cublasStatus_t status =
      lt.Matmul(handle(p.key.device), plan.operation, p.alpha, p.a, plan.a, p.b, plan.b, p.beta, p.c, plan.c, p.d,
                plan.d, &plan.algorithm, workspace.data(), static_cast<std::size_t>(plan.workspace), stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
    plan.possible = false;
    return false;
  }
  check(status, "cublasLtMatmul");
  if (launch_blocking()) [[unlikely]]
    TENON_CUDA(cudaStreamSynchronize(stream));
  return true;
}

}  // namespace tenon::cuda
