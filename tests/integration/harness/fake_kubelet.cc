#include "tests/integration/harness/fake_kubelet.h"

#include <utility>

#include "common/base/base64.h"
#include "common/base/clock.h"
#include "common/control/pod_contract.h"

namespace ringmaster::testing {
namespace {

using nlohmann::json;

std::string Now() { return FormatTime(std::chrono::system_clock::now()); }

json RunningStatus(const std::string& container, const std::string& address) {
  json conditions = json::array();
  for (const char* type : {"PodScheduled", "Initialized", "ContainersReady", "Ready"}) {
    conditions.push_back({{"type", type}, {"status", "True"}, {"lastTransitionTime", Now()}});
  }
  const json status = {{"name", container},
                       {"image", "test"},
                       {"imageID", ""},
                       {"ready", true},
                       {"started", true},
                       {"restartCount", 0},
                       {"state", {{"running", {{"startedAt", Now()}}}}}};
  return {{"status",
           {{"phase", "Running"},
            {"podIP", address},
            {"podIPs", json::array({{{"ip", address}}})},
            {"startTime", Now()},
            {"conditions", conditions},
            {"containerStatuses", json::array({status})}}}};
}

// Repeats a request, as a kubelet does, until the API server accepts or rejects it.
void Insist(const std::function<Response()>& request) {
  WaitUntil(
      [&] {
        const int status = request().status;
        return status != 0 && status != 429 && status < 500;
      },
      std::chrono::seconds(60));
}

std::string DecodeItem(const json& secret, const char* item) {
  const std::string encoded = TextAt(secret, std::string("/data/") + item);
  return DecodeBase64(encoded).value_or("");
}

}  // namespace

std::string PodEnvironment(const json& pod, const std::string& name) {
  for (const json& container : At(pod, "/spec/containers")) {
    for (const json& variable : At(container, "/env")) {
      if (TextAt(variable, "/name") == name) return TextAt(variable, "/value");
    }
  }
  return "";
}

std::string PodSecret(const json& pod) {
  for (const json& volume : At(pod, "/spec/volumes")) {
    if (std::string name = TextAt(volume, "/secret/secretName"); !name.empty()) return name;
    for (const json& source : At(volume, "/projected/sources")) {
      if (std::string name = TextAt(source, "/secret/name"); !name.empty()) return name;
    }
  }
  return "";
}

FakeKubelet::FakeKubelet(ApiClient& admin, std::string ns)
    : admin_(admin),
      ns_(std::move(ns)),
      thread_([this](std::stop_token stop) { Work(std::move(stop)); }) {}

FakeKubelet::~FakeKubelet() {
  thread_.request_stop();
  thread_.join();
}

std::string FakeKubelet::PodPath(const std::string& name) const {
  return "/api/v1/namespaces/" + ns_ + "/pods/" + name;
}

void FakeKubelet::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    admin_.Watch("/api/v1/namespaces/" + ns_ + "/pods?watch=true&resourceVersion=0", stop,
                 [&](const json& event) {
                   Handle(TextAt(event, "/type"), At(event, "/object"));
                   return !stop.stop_requested();
                 });
  }
}

void FakeKubelet::Handle(const std::string& type, const json& pod) {
  const std::string name = TextAt(pod, "/metadata/name");
  const std::string uid = TextAt(pod, "/metadata/uid");
  if (type == "DELETED") {
    StopLauncher(name);
    const std::lock_guard lock(mutex_);
    terminating_.erase(name);
    return;
  }
  if (type != "ADDED" && type != "MODIFIED") return;
  if (!TextAt(pod, "/metadata/deletionTimestamp").empty()) {
    {
      const std::lock_guard lock(mutex_);
      terminating_[name] = uid;
      if (cut_off_) return;
    }
    RemovePod(name, uid);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!started_.insert(uid).second) return;
  }
  if (TextAt(pod, "/status/podIP").empty()) StartPod(pod);
}

void FakeKubelet::StartPod(const json& pod) {
  const std::string name = TextAt(pod, "/metadata/name");
  const std::string container = TextAt(pod, "/spec/containers/0/name");
  const std::string address = FreeLoopbackAddress();
  const json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "node-of-" + name}};
  Insist([&] {
    return admin_.Post(PodPath(name) + "/binding", {{"apiVersion", "v1"},
                                                    {"kind", "Binding"},
                                                    {"metadata", {{"name", name}}},
                                                    {"target", node}});
  });
  if (container == control::kLauncherContainer) StartLauncher(pod, address);
  Insist([&] {
    return admin_.MergePatch(PodPath(name) + "/status", RunningStatus(container, address));
  });
}

void FakeKubelet::StartLauncher(const json& pod, const std::string& address) {
  const std::string name = TextAt(pod, "/metadata/name");
  // Waits, as a kubelet does, until the Secret that the Pod mounts exists, or the Pod is gone.
  json secret;
  WaitUntil(
      [&] {
        const Response found =
            admin_.Get("/api/v1/namespaces/" + ns_ + "/secrets/" + PodSecret(pod));
        secret = found.body;
        if (found.ok()) return true;
        const json stored = admin_.Get(PodPath(name)).body;
        return TextAt(stored, "/metadata/uid") != TextAt(pod, "/metadata/uid") ||
               !TextAt(stored, "/metadata/deletionTimestamp").empty();
      },
      std::chrono::seconds(60));
  LauncherIdentity identity;
  identity.address = address;
  identity.certificate_pem = DecodeItem(secret, control::kItemTlsCertificate);
  identity.key_pem = DecodeItem(secret, control::kItemTlsKey);
  identity.operator_token = DecodeItem(secret, control::kItemOperatorToken);
  const std::string term = PodEnvironment(pod, control::kEnvTerm);
  identity.term = term.empty() ? 0 : std::stoll(term);
  auto started = FakeLauncher::Start(identity);
  if (!started.ok())
    return;  // without its Secret a Pod does not start, but it still gets an address
  std::shared_ptr<FakeLauncher> launcher = std::move(*started);
  std::function<void(const std::string&, FakeLauncher&)> on_launcher;
  {
    const std::lock_guard lock(mutex_);
    on_launcher = on_launcher_;
  }
  if (on_launcher) on_launcher(name, *launcher);
  const std::lock_guard lock(mutex_);
  launchers_[name] = std::move(launcher);
}

void FakeKubelet::StopLauncher(const std::string& pod) {
  std::shared_ptr<FakeLauncher> launcher;
  {
    const std::lock_guard lock(mutex_);
    const auto it = launchers_.find(pod);
    if (it == launchers_.end()) return;
    launcher = std::move(it->second);
    launchers_.erase(it);
  }
  launcher->Stop();
}

void FakeKubelet::RemovePod(const std::string& name, const std::string& uid) {
  // Delete by UID, because another Pod may have the name by now.
  Insist([&] {
    return admin_.Delete(PodPath(name), {{"kind", "DeleteOptions"},
                                         {"apiVersion", "v1"},
                                         {"gracePeriodSeconds", 0},
                                         {"preconditions", {{"uid", uid}}}});
  });
}

std::shared_ptr<FakeLauncher> FakeKubelet::Launcher(const std::string& pod,
                                                    std::chrono::milliseconds limit) {
  std::shared_ptr<FakeLauncher> found;
  WaitUntil(
      [&] {
        const std::lock_guard lock(mutex_);
        const auto it = launchers_.find(pod);
        if (it != launchers_.end()) found = it->second;
        return found != nullptr;
      },
      limit);
  return found;
}

Response FakeKubelet::Terminate(const std::string& pod, int exit_code, const std::string& message,
                                const std::string& reason) {
  StopLauncher(pod);
  const json stored = admin_.Get(PodPath(pod)).body;
  json container = At(stored, "/status/containerStatuses/0");
  if (!container.is_object()) return {0, "Pod " + pod + " does not run"};
  container["ready"] = false;
  const std::string usual = exit_code == 0 ? "Completed" : "Error";
  container["state"] = {{"terminated",
                         {{"exitCode", exit_code},
                          {"reason", reason.empty() ? usual : reason},
                          {"message", message},
                          {"startedAt", Now()},
                          {"finishedAt", Now()}}}};
  // A kubelet reports the phase later than the containers: after it has cleaned up.
  const std::string path = PodPath(pod) + "/status";
  const Response ended =
      admin_.MergePatch(path, {{"status", {{"containerStatuses", json::array({container})}}}});
  if (!ended.ok()) return ended;
  const Response over =
      admin_.MergePatch(path, {{"status", {{"phase", exit_code == 0 ? "Succeeded" : "Failed"}}}});
  return over.status == 404 ? ended : over;
}

void FakeKubelet::SetCutOff(bool cut_off) {
  std::map<std::string, std::string> waiting;
  {
    const std::lock_guard lock(mutex_);
    cut_off_ = cut_off;
    waiting = terminating_;
  }
  if (cut_off) return;
  for (const auto& [name, uid] : waiting) RemovePod(name, uid);
}

void FakeKubelet::SetOnLauncher(
    std::function<void(const std::string&, FakeLauncher&)> on_launcher) {
  const std::lock_guard lock(mutex_);
  on_launcher_ = std::move(on_launcher);
}

}  // namespace ringmaster::testing
