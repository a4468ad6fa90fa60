// SPDX-License-Identifier: Apache-2.0
// RawGraphs over the CUDA runtime, and its registration. Part of libtenon_cuda.
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/raw_graphs.h>

namespace tenon {
namespace {

cudaStream_t raw(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaGraph_t raw_graph(void* graph) { return static_cast<cudaGraph_t>(graph); }

class CudaGraphs final : public RawGraphs {
 public:
  void begin_capture(int, void* stream, CaptureMode mode) override {
    const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal,
                                           cudaStreamCaptureModeRelaxed};
    TENON_CUDA(cudaStreamBeginCapture(raw(stream), modes[static_cast<int>(mode)]));
  }
  void* end_capture(int, void* stream) override {
    cudaGraph_t graph = nullptr;
    TENON_CUDA(cudaStreamEndCapture(raw(stream), &graph));
    TENON_CHECK(graph, CaptureError, "Graph::capture_end: the driver gave no graph: the capture was broken before");
    return graph;
  }
  uint64_t capture_id(int, void* stream) override {
    if (!stream) return 0;  // the default stream cannot be captured, and asking would break another's capture
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    TENON_CUDA(cudaStreamGetCaptureInfo(raw(stream), &status, &id));
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }
  void* instantiate(int, void* graph) override {
    cudaGraphExec_t executable = nullptr;
    TENON_CUDA(cudaGraphInstantiate(&executable, raw_graph(graph), 0));
    return executable;
  }
  void launch(int, void* executable, void* stream) override {
    TENON_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), raw(stream)));
  }
  void destroy(int, void* graph, void* executable) noexcept override {
    if (executable) (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable));
    if (graph) (void)cudaGraphDestroy(raw_graph(graph));
    (void)cudaGetLastError();
  }
  int64_t nodes(int, void* graph) override {
    size_t count = 0;
    TENON_CUDA(cudaGraphGetNodes(raw_graph(graph), nullptr, &count));
    return static_cast<int64_t>(count);
  }
  void dump(int, void* graph, const std::string& path) override {
    TENON_CUDA(cudaGraphDebugDotPrint(raw_graph(graph), path.c_str(), cudaGraphDebugDotFlagsVerbose));
  }
};

[[maybe_unused]] const bool registered = [] {
  try {
    register_raw_graphs(kCUDA, new CudaGraphs);
    return true;
  } catch (const std::exception&) {  // a second copy of this library: the first one serves
    return false;
  }
}();

}  // namespace
}  // namespace tenon
