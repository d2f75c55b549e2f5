// Tests the agent's child process that queries NVML, with a fake NVML (tests/fakes/fake_nvml.cc).

#include "worker/agent/host/gpu_watch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"

namespace ringmaster::agent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class GpuWatching : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/ringmaster-gpus-XXXXXX";
    folder = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string File() const { return folder / "gpus"; }
  void Driver(const std::string& text) const {
    std::ofstream(File() + ".new") << text;
    std::filesystem::rename(File() + ".new", File());
  }
  // Runs the watch until it reports a list with a problem, or a list of GPUs and `wanted` faults.
  void Watch(std::size_t wanted, std::chrono::milliseconds limit = std::chrono::seconds(60),
             const std::string& library = FromBuild(FAKE_NVML_LIBRARY)) {
    boost::asio::io_context io(1);
    ChildReaper reaper(io);
    bool listed = false;
    const auto stop_if_done = [&] {
      if (listed && (!list.problem.empty() || troubles.size() >= wanted)) io.stop();
    };
    GpuWatch watch(io, reaper,
                   {.argv = {FromBuild(RINGMASTER_AGENT), kWatchGpusFlag, library},
                    .environment = {"FAKE_NVML=" + File()},
                    .limit = limit},
                   {.on_list =
                        [&](const GpuList& found) {
                          list = found;
                          listed = true;
                          if (on_list) on_list();
                          stop_if_done();
                        },
                    .on_trouble =
                        [&](const GpuTrouble& trouble) {
                          troubles.push_back(trouble);
                          stop_if_done();
                        }});
    io.run();
  }

  std::filesystem::path folder;
  std::function<void()> on_list;
  GpuList list;
  std::vector<GpuTrouble> troubles;
};

auto Device(const std::string& uuid, const std::string& fault = "") {
  return AllOf(Field(&GpuDevice::uuid, uuid), Field(&GpuDevice::fault, fault));
}

TEST_F(GpuWatching, FindsWhatThisContainerMayUse) {
  Driver("gpu GPU-a\nforeign GPU-x\nlost GPU-b\ngone\ngpu GPU-c\nmig MIG-c1 1\nmig MIG-c2 2\n");

  Watch(0);

  EXPECT_EQ(list.problem, "");
  EXPECT_THAT(list.devices,
              ElementsAre(Device("GPU-a"), Device("GPU-b", "GPU is lost"),
                          Device("", "GPU is lost"), Device("MIG-c1"), Device("MIG-c2")));
}

TEST_F(GpuWatching, ReportsTheirErrors) {
  Driver("gpu GPU-a\ngpu GPU-b\nmig MIG-1 1\nmig MIG-2 2\n");
  on_list = [this] {
    Driver("gpu GPU-a\ngpu GPU-b\nmig MIG-1 1\nmig MIG-2 2\nxid 31 MIG-2\nxid 79 GPU-a\n");
  };

  Watch(2);

  EXPECT_THAT(troubles,
              ElementsAre(AllOf(Field(&GpuTrouble::uuid, "MIG-2"), Field(&GpuTrouble::xid, 31)),
                          AllOf(Field(&GpuTrouble::uuid, "GPU-a"), Field(&GpuTrouble::xid, 79))));
}

TEST_F(GpuWatching, AGpuThatIsLostWithoutAnEventIsFoundByPolling) {
  Driver("gpu GPU-a\ngpu GPU-b\n");
  on_list = [this] { Driver("gpu GPU-a\nlost GPU-b\n"); };

  Watch(1);

  EXPECT_THAT(troubles,
              ElementsAre(AllOf(Field(&GpuTrouble::uuid, "GPU-b"), Field(&GpuTrouble::xid, 0),
                                Field(&GpuTrouble::fault, "GPU is lost"))));
}

TEST_F(GpuWatching, ADriverThatHangsIsLeftBehind) {
  Driver("hang\n");

  Watch(0, std::chrono::milliseconds(300));

  EXPECT_TRUE(list.hangs);
  EXPECT_THAT(list.devices, IsEmpty());
}

TEST_F(GpuWatching, ReportsThatTheLibraryIsMissing) {
  Watch(0, std::chrono::seconds(60), "libno-such-nvml.so.1");

  EXPECT_FALSE(list.hangs);
  EXPECT_THAT(list.problem, HasSubstr("libno-such-nvml.so.1"));
}

}  // namespace
}  // namespace ringmaster::agent
