#include "worker/agent/host/address.h"

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using control::Interfaces;

const std::vector<InterfaceAddress> kHere{{"lo", "127.0.0.1", true},
                                          {"docker0", "172.17.0.1"},
                                          {"eth0", "10.0.0.5"},
                                          {"eth0", "10.0.0.6"},
                                          {"ib0", "10.1.0.5"}};

TEST(Address, IsThatOfTheFirstInterfaceNamed) {
  const Result<std::string> routed = std::string("10.0.0.5");
  EXPECT_EQ(*ChooseAddress(kHere, routed, {}), "10.0.0.5");
  EXPECT_EQ(*ChooseAddress(kHere, routed, {.include = {"ib0", "eth0"}, .exclude = {}}), "10.1.0.5");
  EXPECT_EQ(*ChooseAddress(kHere, routed, {.include = {"lo"}, .exclude = {}}), "127.0.0.1");
  EXPECT_EQ(*ChooseAddress(kHere, Error{ErrorKind::kUnavailable, "no route"},
                           {.include = {"eth0"}, .exclude = {}}),
            "10.0.0.5");
}

TEST(Address, AnyInterfaceThatIsMissingIsNamed) {
  const auto missing =
      ChooseAddress(kHere, std::string("10.0.0.5"), {.include = {"eth0", "eth"}, .exclude = {}});

  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("\"eth\" of spec.network.interfaces"), std::string::npos);
  EXPECT_NE(missing.error().message.find("lo,docker0,eth0,ib0"), std::string::npos);
}

TEST(Address, IsTheRoutesUnlessThatInterfaceIsExcluded) {
  const Result<std::string> routed = std::string("10.0.0.5");
  const auto without = [&](std::vector<std::string> names) {
    return ChooseAddress(kHere, routed, {.include = {}, .exclude = std::move(names)});
  };
  EXPECT_EQ(*without({"docker0"}), "10.0.0.5");
  EXPECT_EQ(*without({"eth0"}), "172.17.0.1");
  EXPECT_EQ(*without({"eth0", "docker0"}), "10.1.0.5");

  const auto none = without({"eth0", "docker0", "ib0"});

  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("excludeInterfaces excludes all interfaces"),
            std::string::npos);
}

}  // namespace
}  // namespace ringmaster::agent
