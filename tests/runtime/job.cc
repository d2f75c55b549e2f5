#include "tests/runtime/job.h"

#include <array>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/secrets.h"
#include "tests/fakes/patience.h"
#include "tests/paths.h"

namespace ringmaster::runtime_test {
namespace {

constexpr char kPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const std::vector<std::string> kLauncherItems = {
    control::kItemSshUserKey,     control::kItemSshHostPublicKey, control::kItemTlsKey,
    control::kItemTlsCertificate, control::kItemAgentToken,       control::kItemOperatorToken};
const std::vector<std::string> kWorkerItems = {
    control::kItemSshUserPublicKey, control::kItemSshHostKey, control::kItemTlsCertificate,
    control::kItemAgentToken};

void Must(const std::vector<std::string>& argv) {
  const Ran ran = RunCommand(argv);
  ASSERT_EQ(ran.exit_code, 0) << argv[0] << ": " << ran.output;
}

std::string ItemHashes(const std::string& directory, const std::vector<std::string>& items) {
  std::string hashes;
  for (const std::string& item : items) {
    hashes += (hashes.empty() ? "{\"" : ",\"") + item + "\":\"" +
              control::Sha256Hex(ReadFile(directory + "/" + item)) + "\"";
  }
  return hashes + "}";
}

int jobs = 0;  // number of jobs created by this process

std::string NewDirectory() {
  // The path must be short, because the folder contains unix sockets. The hosts do not share /tmp.
  std::array<char, 32> name{"/var/tmp/rmt-XXXXXX"};
  return mkdtemp(name.data());
}

}  // namespace

Job::Job(int hosts, control::LaunchSpec spec)
    : hosts_(hosts),
      spec_(std::move(spec)),
      directory_(NewDirectory()),
      job_uid_("job-" + std::to_string(getpid()) + "-" + std::to_string(++jobs)) {
  MakeCredentials();
}

Job::~Job() {
  if (launcher_ != nullptr) launcher_->Kill();
  for (auto& [worker, agent] : agents_) agent->Kill();
  if (testing::Test::HasFailure()) {
    std::printf("what ran printed:\n%s\n", Log().c_str());
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
  std::filesystem::remove_all(SharedMemory(), ignored);  // files that killed agents have left
}

std::string Job::SharedMemory() const {
  return "/dev/shm/" + std::filesystem::path(directory_).filename().string();
}

void Job::MakeCredentials() {
  std::filesystem::create_directory(Path("credentials"));
  const auto item = [&](const char* name) { return Path("credentials/") + name; };
  Must({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "job", "-f",
        item(control::kItemSshUserKey)});
  Must({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "job", "-f",
        item(control::kItemSshHostKey)});
  const std::string name = control::kTlsNamePrefix + job_uid_ + control::kTlsNameSuffix;
  Must({"openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj",
        "/CN=launcher", "-addext", "subjectAltName=DNS:" + name, "-keyout",
        item(control::kItemTlsKey), "-out", item(control::kItemTlsCertificate)});
  WriteFile(item(control::kItemAgentToken), "the-agents-token");
  WriteFile(item(control::kItemOperatorToken), "the-operators-token");
}

Variables Job::CommonVariables(const std::string& host_name, const std::string& item_hashes) {
  return {{"PATH", kPath},
          {"HOME", "/root"},
          // Unit tests check for leaks; here, a report would replace the exit code. Full stacks for
          // all allocations of LibTorch would take a tenth of a rank's CPU time, and keeping the
          // default of 256 MiB of freed memory would take half of it, mostly in page faults.
          {"ASAN_OPTIONS", "detect_leaks=0:malloc_context_size=3:quarantine_size_mb=16"},
          {"UBSAN_OPTIONS", "print_stacktrace=1"},
          {"OMP_NUM_THREADS", "1"},  // the hosts share this machine's processors
          {control::kEnvJobName, "digits"},
          {control::kEnvNamespace, "team"},
          {control::kEnvJobUid, job_uid_},
          {control::kEnvPodName, host_name},
          {control::kEnvNodeName, "node-of-" + host_name},
          {control::kEnvLaunchSpec, control::EncodeLaunchSpec(spec_)},
          {control::kEnvItemHashes, item_hashes},
          {control::kEnvCredentialsDir, Path("credentials")},
          {control::kEnvTerminationLog, Path("verdict-" + host_name)},
          {control::kEnvSnapshotDir, SharedMemory()},
          {control::kEnvRuntimeDir, Path("run-" + host_name)}};
}

void Job::StartLauncher(int term) {
  const std::string name = "digits-launcher-" + std::to_string(term);
  Variables variables = CommonVariables(name, ItemHashes(Path("credentials"), kLauncherItems));
  variables[control::kEnvTerm] = std::to_string(term);
  variables[control::kEnvTerminationLog] = Path("verdict");
  // A process that gets no CPU time for a while must not count as lost or hung. Programs in mode
  // Restart may be silent forever, unless a test sets a limit.
  const std::string limit = std::to_string(2000 * Patience());
  variables[control::kEnvLostAfterMillis] = limit;
  if (spec_.InPlace()) variables[control::kEnvStallMillis] = limit;
  WriteFile(Path("verdict"), "");
  for (const auto& [key, value] : launcher_extra) variables[key] = value;
  launcher_ = hosts_.Start(0, name, variables, {LauncherProgram()}, Path("launcher.log"));
}

std::string Job::WorkerItemHashes(const std::string& directory) const {
  return ItemHashes(directory, kWorkerItems);
}

std::string Job::PodUid(int worker) const {
  const auto chosen = pod_uids_.find(worker);
  return chosen == pod_uids_.end() ? "uid-" + std::to_string(worker) + "-1" : chosen->second;
}

void Job::StartAgent(int worker, const std::string& pod_uid, const Variables& changes) {
  if (!pod_uid.empty()) pod_uids_[worker] = pod_uid;
  const std::string name = "digits-worker-" + std::to_string(worker);
  Variables variables = CommonVariables(name, WorkerItemHashes(Path("credentials")));
  variables[control::kEnvPodUid] = PodUid(worker);
  variables[control::kEnvWorkerIndex] = std::to_string(worker);
  variables[control::kEnvLauncherAddress] = hosts_.Address(0);
  for (const auto& [key, value] : worker_extra) variables[key] = value;
  for (const auto& [key, value] : changes) variables[key] = value;
  const auto shared = host_network.find(worker);
  const int host = shared == host_network.end() ? 1 + worker : shared->second;
  const std::string host_name =
      shared == host_network.end() ? name : "node-" + std::to_string(host);
  std::vector<std::string> argv = {AgentProgram()};
  if (worker_user != 0) {
    const std::string user = std::to_string(worker_user);
    variables.erase("HOME");
    Must({"chown", user, directory_});
    Must({"chown", "-R", user, Path("credentials")});
    // Let the user read the programs even in folders of another user, as in an image.
    const std::string read = "-caps=+dac_read_search";
    argv = {"setpriv",        "--reuid=" + user, "--regid=" + user,  "--clear-groups",
            "--no-new-privs", "--inh" + read,    "--ambient" + read, AgentProgram()};
  }
  agents_[worker] = hosts_.Start(host, host_name, variables, argv,
                                 Path("worker-" + std::to_string(worker) + ".log"), working_dir);
}

Ran Job::Call(const std::string& token, const std::vector<std::string>& arguments) {
  const std::string name = control::kTlsNamePrefix + job_uid_ + control::kTlsNameSuffix;
  const std::string port = std::to_string(control::kApiPort);
  std::vector<std::string> argv = {"ip",
                                   "netns",
                                   "exec",
                                   hosts_.Namespace(0),
                                   "curl",
                                   "--silent",
                                   "--show-error",
                                   "--max-time",
                                   "10",
                                   "--cacert",
                                   Path("credentials/tls.crt"),
                                   "--resolve",
                                   name + ":" + port + ":" + hosts_.Address(0),
                                   "--header",
                                   "Authorization: Bearer " + token,
                                   "--write-out",
                                   "\n%{http_code}"};
  argv.insert(argv.end(), arguments.begin(), arguments.end() - 1);
  argv.push_back("https://" + name + ":" + port + arguments.back());
  return RunCommand(argv);
}

control::LauncherStatus Job::SendOrder(const std::vector<int>& workers, int min_replicas,
                                       const std::vector<std::string>& dead) {
  control::Order order;
  order.stamp = {1, ++orders_};
  order.replicas = static_cast<int>(workers.size());
  order.min_replicas = min_replicas > 0 ? min_replicas : order.replicas;
  for (const int worker : workers) {
    const std::string name = "digits-worker-" + std::to_string(worker);
    order.workers.push_back({PodUid(worker), name, "node-of-" + name, worker});
  }
  order.dead = dead;
  order.checkpoint = wants_checkpoint;
  const std::string text = control::EncodeOrder(order);
  WriteFile(Path("order.json"), as_operator_says ? as_operator_says(text) : text);
  Ran ran;
  const bool accepted = WaitUntil(Seconds(30), [&] {
    ran = Call("the-operators-token",
               {"--request", "PUT", "--data-binary", "@" + Path("order.json"), "/v1/order"});
    return ran.output.ends_with("\n200");
  });
  EXPECT_TRUE(accepted) << ran.output;
  return StatusIn(ran);
}

int Job::OrderWithToken(const std::string& token) {
  const Ran ran = Call(token, {"--request", "PUT", "--data-binary", "{}", "/v1/order"});
  return std::atoi(ran.output.substr(ran.output.rfind('\n') + 1).c_str());
}

control::LauncherStatus Job::Status() {
  return StatusIn(Call("the-operators-token", {"/v1/status"}));
}

// Returns the status in the launcher's answer, or a default status if decoding fails.
control::LauncherStatus Job::StatusIn(const Ran& ran) const {
  std::string text = ran.output.substr(0, ran.output.rfind('\n'));
  if (as_launcher_says && ran.output.ends_with("\n200")) text = as_launcher_says(text);
  const auto status = control::DecodeLauncherStatus(text);
  return status.ok() ? *status : control::LauncherStatus{};
}

bool Job::WaitForPhase(control::LauncherPhase phase, Seconds limit) {
  return WaitUntil(limit, [&] { return Status().phase == phase; });
}

control::Verdict Job::AwaitVerdict(Seconds limit) {
  const bool ended = launcher_->Wait(limit).has_value();
  EXPECT_TRUE(ended) << "the launcher still runs";
  const auto verdict = control::DecodeVerdict(ReadFile(Path("verdict")));
  EXPECT_TRUE(verdict.ok()) << "no verdict: " << ReadFile(Path("verdict"));
  return verdict.ok() ? *verdict : control::Verdict{};
}

std::string Job::Log() const {
  std::string text = "--- launcher\n" + ReadFile(Path("launcher.log"));
  for (const auto& [worker, agent] : agents_) {
    text += "--- worker " + std::to_string(worker) + "\n" + agent->Log();
  }
  return text + "--- verdict\n" + ReadFile(Path("verdict"));
}

std::string AgentProgram() { return FromBuild(RINGMASTER_PROGRAMS "/ringmaster-agent"); }
std::string LauncherProgram() { return FromBuild(RINGMASTER_PROGRAMS "/ringmaster-launcher"); }
std::string FakeTrainProgram() { return FromBuild(RINGMASTER_FAKE_PROGRAMS "/ringmaster-train"); }
std::string MpiSumProgram() { return FromBuild(RINGMASTER_FAKE_PROGRAMS "/mpi-sum"); }
std::string TrainProgram() { return FromBuild(RINGMASTER_PROGRAMS "/ringmaster-train"); }
std::string AuditProgram() { return FromBuild(RINGMASTER_PROGRAMS "/ringmaster-audit"); }
std::string ReplayProgram() { return FromBuild(RINGMASTER_PROGRAMS "/ringmaster-replay"); }

}  // namespace ringmaster::runtime_test
