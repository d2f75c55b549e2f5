#include "tests/gpu/gpu_ranks.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/comm/file_store.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::seconds kRanksLimit{120};

}  // namespace

pid_t StartGpuProcess(int number, const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // NCCL rejects two ranks on one GPU of one host. With different host ids, ranks use loopback.
  ::setenv("NCCL_HOSTID", ("test-host-" + std::to_string(number)).c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_IB_DISABLE", "1", 1);
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process %d: %s\n", number, error.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

int AwaitExit(pid_t process, std::chrono::seconds limit) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  const bool in_time = handle >= 0 && ::poll(&ended, 1, static_cast<int>(millis)) == 1;
  if (handle >= 0) ::close(handle);
  if (!in_time) ::kill(process, SIGKILL);
  int status = 0;
  ::waitpid(process, &status, 0);
  if (!in_time) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void RunGpuRanks(int size, const std::function<int(const World& world)>& body) {
  const TemporaryFolder folder;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(StartGpuProcess(rank, [&] {
      auto store = FileStore::Open(folder.path());
      if (!store.ok()) return 1;
      World world;
      world.rank = rank;
      world.size = size;
      world.store = *std::move(store);
      return body(world);
    }));
  }
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(AwaitExit(processes[static_cast<std::size_t>(rank)], kRanksLimit), 0)
        << "rank " << rank;
  }
}

}  // namespace ringmaster::trainer
