// Tests the exact text of mpirun's command lines, which users see in the log.

#include "worker/launcher/mpi/mpirun_command.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

MpirunPlan Plan(MpiFlavour flavour) {
  MpirunPlan plan;
  plan.flavour = flavour;
  plan.world_size = 6;
  plan.hosts = 3;
  plan.hostfile = "/tmp/ringmaster/hostfile";
  plan.ssh_config = "/tmp/ringmaster/ssh_config";
  plan.program = {"/usr/bin/ringmaster-attach", "--cohort=7"};
  return plan;
}

TEST(MpirunCommand, WritesOpenMpi4Lines) {
  EXPECT_EQ(
      QuoteCommand(MpirunArguments(Plan(MpiFlavour::kOpenMpi4))),
      "mpirun --tag-output -np 6 --hostfile /tmp/ringmaster/hostfile --bind-to none --map-by slot "
      "--mca pml ob1 "
      "--mca btl ^openib --mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_num_concurrent 3 "
      "--mca plm_rsh_args '-F /tmp/ringmaster/ssh_config' /usr/bin/ringmaster-attach --cohort=7");
}

TEST(MpirunCommand, WritesOpenMpi5Lines) {
  EXPECT_EQ(QuoteCommand(MpirunArguments(Plan(MpiFlavour::kOpenMpi5))),
            "mpirun --output tag -np 6 --hostfile /tmp/ringmaster/hostfile --bind-to none --map-by "
            "slot --mca pml ob1 "
            "--prtemca plm_ssh_no_tree_spawn 1 --prtemca plm_ssh_num_concurrent 3 "
            "--prtemca plm_ssh_args '-F /tmp/ringmaster/ssh_config' /usr/bin/ringmaster-attach "
            "--cohort=7");
}

TEST(MpirunCommand, ReachesHostsThroughTheirAgents) {
  for (const auto& [flavour, agent] :
       {std::pair{MpiFlavour::kOpenMpi4,
                  "--mca plm_rsh_agent /usr/bin/ringmaster-rsh "
                  "--mca plm_rsh_args --socket=/tmp/ringmaster/rsh.sock"},
        std::pair{MpiFlavour::kOpenMpi5,
                  "--prtemca plm_ssh_agent /usr/bin/ringmaster-rsh "
                  "--prtemca plm_ssh_args --socket=/tmp/ringmaster/rsh.sock"}}) {
    MpirunPlan plan = Plan(flavour);
    plan.ssh_config.clear();
    plan.rsh = "/usr/bin/ringmaster-rsh";
    plan.rsh_socket = "/tmp/ringmaster/rsh.sock";

    const std::string line = QuoteCommand(MpirunArguments(plan));
    const auto environment = MpirunEnvironment(plan, {});

    EXPECT_NE(line.find(agent), std::string::npos) << line;
    EXPECT_EQ(line.find("-F"), std::string::npos) << line;
    for (const std::string prefix : {"OMPI_MCA_plm_rsh_", "PRTE_MCA_plm_ssh_"}) {
      EXPECT_EQ(environment.at(prefix + "agent"), plan.rsh);
      EXPECT_EQ(environment.at(prefix + "args"), "--socket=/tmp/ringmaster/rsh.sock");
      EXPECT_EQ(environment.at(prefix + "no_tree_spawn"), "1");
    }
  }
}

TEST(MpirunCommand, KnowsWhetherTheUserChoosesTheDirectory) {
  for (const std::vector<std::string>& chosen :
       {std::vector<std::string>{"--wdir", "/a"}, {"-wd", "/a"}, {"--verbose", "--wdir=/a"}}) {
    EXPECT_TRUE(ChoosesDirectory(chosen)) << chosen.front();
  }
  EXPECT_FALSE(ChoosesDirectory({}));
  EXPECT_FALSE(ChoosesDirectory({"--mca", "wdir", "1"}));
}

TEST(MpirunCommand, AddsWhatTheJobAsksFor) {
  MpirunPlan plan = Plan(MpiFlavour::kOpenMpi4);
  plan.as_root = true;
  plan.mpirun = "/opt/mpi/bin/mpirun";
  plan.interfaces.include = {"eth0", "eth1"};
  plan.interface_here = true;
  plan.export_env = {"NCCL_DEBUG"};
  plan.extra_args = {"--mca", "btl_base_verbose", "30"};
  plan.program.insert(plan.program.end(), {"--", "./train me"});

  EXPECT_EQ(QuoteCommand(MpirunArguments(plan)),
            "/opt/mpi/bin/mpirun --allow-run-as-root --tag-output -np 6 --hostfile "
            "/tmp/ringmaster/hostfile --bind-to "
            "none --map-by slot --mca pml ob1 --mca btl ^openib --mca plm_rsh_no_tree_spawn 1 "
            "--mca plm_rsh_num_concurrent 3 --mca plm_rsh_args '-F /tmp/ringmaster/ssh_config' "
            "--mca btl_tcp_if_include eth0,eth1 --mca oob_tcp_if_include eth0,eth1 "
            "-x GLOO_SOCKET_IFNAME=eth0,eth1 -x NCCL_SOCKET_IFNAME==eth0,eth1 -x NCCL_DEBUG "
            "--mca btl_base_verbose 30 /usr/bin/ringmaster-attach --cohort=7 -- './train me'");
}

TEST(MpirunCommand, SetsPyTorchsRendezvousUnlessTheUserDoes) {
  MpirunPlan plan = Plan(MpiFlavour::kOpenMpi4);
  plan.master_address = "10.0.0.7";
  plan.master_port = 20123;
  const std::string port = "-x MASTER_PORT=20123";
  const auto line = [&] { return QuoteCommand(MpirunArguments(plan)); };

  EXPECT_NE(line().find("-x MASTER_ADDR=10.0.0.7 " + port), std::string::npos) << line();
  plan.export_env = {"MASTER_PORT"};
  EXPECT_EQ(line().find("MASTER_ADDR"), std::string::npos) << line();
  plan.export_env = {"MASTER_PORTS"};
  plan.extra_args = {"-x", "MASTER_ADDR=other"};
  EXPECT_EQ(line().find("10.0.0.7"), std::string::npos) << line();
}

TEST(MpirunCommand, ExcludesInterfacesAndTheLoopbackFromWhatRanksUse) {
  MpirunPlan plan = Plan(MpiFlavour::kOpenMpi5);
  plan.interfaces.exclude = {"docker0"};

  const std::string line = QuoteCommand(MpirunArguments(plan));

  EXPECT_NE(line.find("--mca btl_tcp_if_exclude docker0,lo --prtemca prte_if_exclude docker0 "
                      "-x NCCL_SOCKET_IFNAME=^=docker0,lo /usr/bin"),
            std::string::npos)
      << line;
}

TEST(MpirunCommand, PassesNoInterfaceToTheDaemonsThatTheLauncherLacks) {
  MpirunPlan plan = Plan(MpiFlavour::kOpenMpi4);
  plan.interfaces.include = {"ib0"};

  const std::string line = QuoteCommand(MpirunArguments(plan));

  EXPECT_NE(line.find("--mca btl_tcp_if_include ib0 "), std::string::npos) << line;
  EXPECT_EQ(line.find("oob_tcp"), std::string::npos) << line;
}

TEST(MpirunCommand, HandsOnOnlyAllowedVariables) {
  MpirunPlan plan = Plan(MpiFlavour::kOpenMpi5);
  plan.export_env = {"MY_FLAG"};
  const auto environment = MpirunEnvironment(plan, {{"PATH", "/usr/bin"},
                                                    {"AWS_SECRET_ACCESS_KEY", "x"},
                                                    {"RINGMASTER_LAUNCH_SPEC", "{}"},
                                                    {"MY_FLAG", "1"},
                                                    {"NCCL_DEBUG", "INFO"},
                                                    {"OMPI_MCA_btl_base_verbose", "1"},
                                                    {"LD_PRELOAD", "x"}});

  EXPECT_EQ(environment, (std::map<std::string, std::string>{
                             {"PATH", "/usr/bin"},
                             {"MY_FLAG", "1"},
                             {"NCCL_DEBUG", "INFO"},
                             {"OMPI_MCA_btl_base_verbose", "1"},
                             {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
                             {"OMPI_MCA_plm_rsh_args", "-F /tmp/ringmaster/ssh_config"},
                             {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
                             {"PRTE_MCA_plm_ssh_args", "-F /tmp/ringmaster/ssh_config"}}));
}

TEST(MpirunCommand, DistinguishesTheGenerations) {
  const auto four = ParseMpiVersion(
      "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n");
  ASSERT_TRUE(four.ok());
  EXPECT_EQ(four->flavour, MpiFlavour::kOpenMpi4);
  EXPECT_EQ(four->version, "4.1.4");
  const auto five = ParseMpiVersion("mpirun (Open MPI) 5.0.7\n");
  ASSERT_TRUE(five.ok());
  EXPECT_EQ(five->flavour, MpiFlavour::kOpenMpi5);
  for (const char* other :
       {"HYDRA build details:\n    Version: 4.0.2", "", "mpirun (Open MPI) 3.1.3", "(Open MPI) "}) {
    EXPECT_FALSE(ParseMpiVersion(other).ok()) << other;
  }
}

TEST(MpirunCommand, QuotesAsAShellWouldRead) {
  EXPECT_EQ(QuoteCommand({"a", "", "it's", "$HOME"}), "a '' 'it'\\''s' '$HOME'");
}

}  // namespace
}  // namespace ringmaster::launcher
