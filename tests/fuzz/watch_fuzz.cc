// Fuzzes the data that an API server or a proxy sends on a watch. The operator must not crash. The
// bytes go through the line splitter, the reflector, the metadata reader and the projections of the
// three kinds that the operator watches.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/job/model/views.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/store.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster {
namespace {

template <typename T>
void Feed(runtime::Store<T>& store, const kube::Resource& resource, const std::string& bytes,
          std::size_t cut) {
  const SystemClock clock;
  http::FakeHttpClient http;
  kube::KubeClient client(http, nullptr);
  runtime::WatchListSupport watch_list;
  http.on_stream = [&](const http::Request&) {
    return http::FakeStream{.chunks = {bytes.substr(0, cut), bytes.substr(cut)}};
  };
  http.on_send = [&](const http::Request&) -> Result<http::Response> {
    return http::Response{200, {}, bytes};
  };
  runtime::ReflectorOptions options;
  options.resource = resource;
  runtime::Reflector reflector(client, clock, store, watch_list, options);
  for (int i = 0; i < 4; ++i) reflector.Step({});
}

}  // namespace
}  // namespace ringmaster

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ringmaster::InitLog("watch_fuzz", "error", ringmaster::LogFormat::kText);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace ringmaster;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = size == 0 ? 0 : data[size - 1] % size;
  runtime::Store<job::PodView> pods(job::ProjectPod);
  runtime::Store<job::ServiceView> services(job::ProjectService);
  runtime::Store<api::TrainingJob> jobs(api::DecodeTrainingJob);
  Feed(pods, kube::kPods, bytes, cut);
  Feed(services, kube::kServices, bytes, cut);
  Feed(jobs, kube::kTrainingJobs, bytes, cut);
  return 0;
}
