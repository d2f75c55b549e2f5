// Programs of others that are not torchrun, as their users start them, from PyPI, in containers
// that have Python and a shell and nothing else: each goes on from its own checkpoint after a
// killed rank.

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

constexpr int kWorkers = 3;
constexpr Seconds kFetchLimit{1000};  // where nobody has made the folder yet
constexpr Seconds kLimit{120};

class RealProgram : public LoggedTest {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (logs_.empty()) return;
    std::filesystem::create_directory(logs_ + "/bin");
    for (const char* program : {"sh", "python3"}) {
      std::filesystem::create_symlink(std::string("/usr/bin/") + program,
                                      logs_ + "/bin/" + program);
    }
  }

  // The folder that the command's last line names.
  std::string Fetch(const std::vector<std::string>& command) {
    Process fetch(command, logs_ + "/fetch.log");
    const std::optional<Outcome> outcome = fetch.Wait(kFetchLimit);
    EXPECT_TRUE(outcome.has_value() && outcome->exit_code == 0) << fetch.Log();
    const std::string text = fetch.Log();
    const std::size_t end = text.find_last_not_of('\n');
    return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
  }

  // Where all hosts see it, with its arguments.
  std::vector<std::string> Program(const std::string& name) const {
    std::filesystem::copy_file(RINGMASTER_PROGRAMS_OF_OTHERS "/" + name, logs_ + "/" + name);
    return {logs_ + "/" + name, "--checkpoint=" + Checkpoint(), "--every=50", "--steps=300"};
  }
  std::string Checkpoint() const { return logs_ + "/checkpoint"; }

  void GoesOnAfterAKilledRank(const control::LaunchSpec& spec, const std::string& python_path) {
    Job job(1 + kWorkers, spec);
    job.worker_extra = {{"PYTHONPATH", python_path}, {"PATH", logs_ + "/bin"}};
    job.launcher_extra = {{"PATH", logs_ + "/bin"}};
    job.StartLauncher();
    for (const int worker : {0, 1, 2}) job.StartAgent(worker);
    job.SendOrder({0, 1, 2});
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return std::filesystem::exists(Checkpoint()); }))
        << job.Log();

    // The last one is a rank, whichever program has started it.
    const std::vector<pid_t> processes = Hosts::Find(job.agent(1), "python3");
    ASSERT_FALSE(processes.empty());
    ASSERT_EQ(kill(processes.back(), SIGKILL), 0);

    const control::Verdict verdict = job.AwaitVerdict(kLimit);
    EXPECT_TRUE(verdict.succeeded) << verdict.message << job.Log();
    EXPECT_EQ(verdict.epoch.number, 2);
    const std::string ranks =
        std::to_string(kWorkers * spec.slots_per_worker * std::max(1, spec.ranks_per_process));
    const std::string log = job.launcher().Log();
    EXPECT_THAT(log, HasSubstr(ranks + " ranks begin after step 0\n"));
    const std::string again = ranks + " ranks begin after step ";
    const std::size_t second = log.rfind(again);
    ASSERT_NE(second, std::string::npos) << log;
    EXPECT_GE(std::stoi(log.substr(second + again.size())), 50) << log;
    EXPECT_THAT(log, HasSubstr("done after step 300"));
  }
};

TEST_F(RealProgram, AccelerateLaunchOncePerWorker) {
  const std::string pytorch = Fetch({RINGMASTER_PYTORCH});
  const std::string accelerate = Fetch({RINGMASTER_PYPI, "accelerate"});
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "exec python3 -m accelerate.commands.launch --multi_gpu --num_machines $NNODES "
                  "--num_processes $((NNODES * 2)) --machine_rank $NODE_RANK "
                  "--main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT \"$@\"",
                  "accelerate"};
  for (const std::string& word : Program("accelerate_program.py")) spec.command.push_back(word);
  spec.ranks_per_process = 2;

  GoesOnAfterAKilledRank(spec, accelerate + ":" + pytorch);
}

TEST_F(RealProgram, JaxOncePerSlot) {
  const std::string jax = Fetch({RINGMASTER_PYPI, "jax"});
  control::LaunchSpec spec;
  spec.command = {"python3"};
  for (const std::string& word : Program("jax_program.py")) spec.command.push_back(word);

  GoesOnAfterAKilledRank(spec, jax);
}

}  // namespace
}  // namespace ringmaster::runtime_test
