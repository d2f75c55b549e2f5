#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/app/options.h"

namespace ringmaster {
namespace {

// Returns the address of /healthz for these flags, or the error.
std::string AdminAddress(std::vector<std::string> flags) {
  const std::string kubeconfig = testing::TempDir() + "/operator_options_test.kubeconfig";
  std::ofstream(kubeconfig) << R"({
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "t"}}]})";
  flags.insert(flags.begin(), {"ringmaster-operator", "--kubeconfig=" + kubeconfig});
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  const CommandLine parsed = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  const auto config = Finalize(parsed.options, [](const std::string&) { return std::string(); });
  return config.ok() ? config->admin_address : config.error().message;
}

TEST(OperatorOptions, ByDefaultTheAddressIsEveryAddress) {
  EXPECT_EQ(AdminAddress({}), ":8080");
  EXPECT_EQ(AdminAddress({"--admin-port=9"}), ":9");
}

TEST(OperatorOptions, AnAddressGetsThePortIfItHasNone) {
  EXPECT_EQ(AdminAddress({"--admin-address=0.0.0.0"}), "0.0.0.0:8080");
  EXPECT_EQ(AdminAddress({"--admin-address=localhost:9"}), "localhost:9");
  EXPECT_EQ(AdminAddress({"--admin-address=:9"}), ":9");
}

TEST(OperatorOptions, AnIpv6AddressMayHaveBrackets) {
  EXPECT_EQ(AdminAddress({"--admin-address=::1"}), "[::1]:8080");
  EXPECT_EQ(AdminAddress({"--admin-address=[::1]"}), "[::1]:8080");
  EXPECT_EQ(AdminAddress({"--admin-address=[::1]:9"}), "[::1]:9");
}

}  // namespace
}  // namespace ringmaster
