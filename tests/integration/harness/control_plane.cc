#include "tests/integration/harness/control_plane.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/fakes/patience.h"
#include "tests/paths.h"

namespace ringmaster::testing {
namespace {

constexpr char kCertificates[] = R"(set -eu
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -subj /CN=test-ca -days 2 -out ca.crt
certificate() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr"
  printf 'extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n' >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" -extfile "$1.ext"
}
certificate server /CN=kube-apiserver
certificate admin /O=system:masters/CN=admin
openssl genrsa -out sa.key 2048
openssl rsa -in sa.key -pubout -out sa.pub
)";

std::string LastLines(const std::string& text, std::size_t bytes = 2000) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

}  // namespace

std::filesystem::path KubernetesPrograms() {
  static const std::filesystem::path programs = [] {
    const CommandOutput printed =
        RunCommand({FromBuild(RINGMASTER_SOURCE_DIR "/deploy/local/build.sh"), "--print"});
    const std::string root = printed.text.substr(0, printed.text.find('\n'));
    const std::filesystem::path found = std::filesystem::path(root) / "bin";
    return std::filesystem::exists(found / "kube-apiserver") ? found : std::filesystem::path();
  }();
  return programs;
}

std::string Kubeconfig(const Endpoint& endpoint, const std::string& token_file) {
  const std::string user = token_file.empty() ? "client-certificate: " + endpoint.certificate_file +
                                                    ", client-key: " + endpoint.key_file
                                              : "tokenFile: " + token_file;
  return "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
         "clusters: [{name: test, cluster: {server: \"https://" +
         endpoint.address + ":" + std::to_string(endpoint.port) +
         "\", certificate-authority: " + endpoint.ca_file +
         "}}]\n"
         "users: [{name: test, user: {" +
         user +
         "}}]\n"
         "contexts: [{name: test, context: {cluster: test, user: test}}]\n";
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::Start() {
  std::unique_ptr<ControlPlane> plane(new ControlPlane);
  if (KubernetesPrograms().empty()) {
    return Error{ErrorKind::kNotFound, "no kube-apiserver in the cache; run deploy/local/build.sh"};
  }
  for (auto step :
       {&ControlPlane::MakeCertificates, &ControlPlane::StartEtcd, &ControlPlane::StartApiServer}) {
    if (auto done = (plane.get()->*step)(); !done.ok()) return done.error();
  }
  WriteFile(plane->admin_kubeconfig(), Kubeconfig(plane->AdminEndpoint()));
  return plane;
}

Result<void> ControlPlane::MakeCertificates() {
  std::filesystem::create_directory(pki());
  const CommandOutput made =
      RunCommand({"sh", "-c", "cd " + pki().string() + " && " + kCertificates});
  if (made.status != 0)
    return Error{ErrorKind::kInternal, "cannot make certificates: " + made.text};
  return {};
}

Result<void> ControlPlane::StartEtcd() {
  etcd_port_ = FreePort();
  const std::string client = "http://127.0.0.1:" + std::to_string(etcd_port_);
  const std::string peer = "http://127.0.0.1:" + std::to_string(FreePort());
  ProcessOptions options;
  options.argv = {KubernetesPrograms() / "etcd",
                  "--data-dir",
                  etcd_data_.path(),
                  "--unsafe-no-fsync",
                  "--log-level",
                  "warn",
                  "--listen-client-urls",
                  client,
                  "--advertise-client-urls",
                  client,
                  "--listen-peer-urls",
                  peer,
                  "--initial-advertise-peer-urls",
                  peer,
                  "--initial-cluster",
                  "default=" + peer};
  options.log = directory() / "etcd.log";
  auto started = Process::Start(options);
  if (!started.ok()) return started.error();
  etcd_ = std::move(*started);
  return {};
}

Result<void> ControlPlane::StartApiServer() {
  if (port_ == 0) port_ = FreePort();
  const std::string p = pki().string() + "/";
  WriteFile(p + "tokens.csv", std::string(kAdminToken) + ",admin,admin,system:masters\n");
  ProcessOptions options;
  options.argv = {KubernetesPrograms() / "kube-apiserver",
                  "--etcd-servers=http://127.0.0.1:" + std::to_string(etcd_port_),
                  "--bind-address=127.0.0.1",
                  "--advertise-address=127.0.0.1",
                  "--endpoint-reconciler-type=none",
                  "--secure-port=" + std::to_string(port_),
                  "--client-ca-file=" + p + "ca.crt",
                  "--tls-cert-file=" + p + "server.crt",
                  "--tls-private-key-file=" + p + "server.key",
                  "--service-account-key-file=" + p + "sa.pub",
                  "--service-account-signing-key-file=" + p + "sa.key",
                  "--service-account-issuer=https://kubernetes.default.svc",
                  "--service-cluster-ip-range=10.96.0.0/16",
                  "--authorization-mode=RBAC",
                  "--allow-privileged=true",
                  "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                  "--token-auth-file=" + p + "tokens.csv",
                  "--cert-dir=" + (directory() / "run").string()};
  options.log = directory() / "apiserver.log";
  auto started = Process::Start(options);
  if (!started.ok()) return started.error();
  apiserver_ = std::move(*started);
  ApiClient admin(AdminEndpoint());
  const bool ready =
      WaitUntil([&] { return !apiserver_->Running() || admin.Get("/readyz").status == 200; },
                std::chrono::seconds(180));
  if (!ready || !apiserver_->Running()) {
    return Error{
        ErrorKind::kUnavailable,
        "the API server does not start: " + LastLines(apiserver_->Log()) + LastLines(etcd_->Log())};
  }
  return {};
}

Result<void> ControlPlane::Install() {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"apply", "--server-side", "-f",
                                 FromBuild(RINGMASTER_SOURCE_DIR "/deploy/install.yaml")},
        {"wait", "--for=condition=Established", "crd/trainingjobs.ringmaster.dev",
         "crd/trainingprofiles.ringmaster.dev", "crd/localtrainingprofiles.ringmaster.dev",
         "--timeout=" + std::to_string(30 * Patience()) + "s"}}) {
    const CommandOutput done = Kubectl(command);
    if (done.status != 0)
      return Error{ErrorKind::kInternal, "kubectl " + command[0] + ": " + done.text};
  }
  ApiClient admin(AdminEndpoint());
  const bool served =
      WaitUntil([&] { return admin.Get("/apis/ringmaster.dev/v1alpha1/trainingjobs").ok(); });
  if (!served) return Error{ErrorKind::kTimeout, "TrainingJobs are not served"};
  return MakeDefaultAccount("ringmaster-system");
}

Result<void> ControlPlane::MakeNamespace(const std::string& name) {
  ApiClient admin(AdminEndpoint());
  const Response made = admin.Post("/api/v1/namespaces", {{"metadata", {{"name", name}}}});
  if (!made.ok()) return Error{ErrorKind::kInternal, made.Text()};
  return MakeDefaultAccount(name);
}

Result<void> ControlPlane::MakeDefaultAccount(const std::string& ns) {
  const Response account = ApiClient(AdminEndpoint())
                               .Post("/api/v1/namespaces/" + ns + "/serviceaccounts",
                                     {{"metadata", {{"name", "default"}}}});
  if (!account.ok()) return Error{ErrorKind::kInternal, account.Text()};
  return {};
}

Result<void> ControlPlane::StartControllerManager(const std::string& controllers) {
  const std::string p = pki().string() + "/";
  ProcessOptions options;
  options.argv = {KubernetesPrograms() / "kube-controller-manager",
                  "--kubeconfig=" + admin_kubeconfig().string(),
                  "--leader-elect=false",
                  "--controllers=" + controllers,
                  "--bind-address=127.0.0.1",
                  "--secure-port=" + std::to_string(FreePort()),
                  "--cert-dir=" + (directory() / "run").string(),
                  "--service-account-private-key-file=" + p + "sa.key",
                  "--root-ca-file=" + p + "ca.crt"};
  options.log = directory() / "controller-manager.log";
  auto started = Process::Start(options);
  if (!started.ok()) return started.error();
  controller_manager_ = std::move(*started);
  return {};
}

void ControlPlane::PauseEtcd(std::chrono::milliseconds duration) {
  etcd_->Signal(SIGSTOP);
  std::this_thread::sleep_for(duration);
  etcd_->Signal(SIGCONT);
}

Result<void> ControlPlane::RestartApiServer() {
  apiserver_.reset();
  return StartApiServer();
}

Endpoint ControlPlane::AdminEndpoint() const {
  Endpoint endpoint;
  endpoint.port = port_;
  endpoint.ca_file = pki() / "ca.crt";
  endpoint.certificate_file = pki() / "admin.crt";
  endpoint.key_file = pki() / "admin.key";
  return endpoint;
}

Result<std::string> ControlPlane::ServiceAccountToken(const std::string& ns,
                                                      const std::string& name) const {
  ApiClient admin(AdminEndpoint());
  const Response answer =
      admin.Post("/api/v1/namespaces/" + ns + "/serviceaccounts/" + name + "/token",
                 {{"apiVersion", "authentication.k8s.io/v1"},
                  {"kind", "TokenRequest"},
                  {"spec", nlohmann::json::object()}});
  if (!answer.ok())
    return Error{ErrorKind::kInternal, "no token for " + ns + "/" + name + ": " + answer.Text()};
  return answer.body.at("status").at("token").get<std::string>();
}

Endpoint ControlPlane::TokenEndpoint(const std::string& token) const {
  Endpoint endpoint;
  endpoint.port = port_;
  endpoint.ca_file = pki() / "ca.crt";
  endpoint.token = token;
  return endpoint;
}

CommandOutput ControlPlane::Kubectl(std::vector<std::string> arguments,
                                    const std::string& stdin_text) const {
  std::vector<std::string> argv = {KubernetesPrograms() / "kubectl",
                                   "--kubeconfig=" + admin_kubeconfig().string(),
                                   "--cache-dir=" + (directory() / "kubectl").string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunCommand(argv, stdin_text);
}

}  // namespace ringmaster::testing
