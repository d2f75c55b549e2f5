#include "operator/job/model/launcher_view.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace ringmaster::job {
namespace {

TEST(LauncherView, ANamespaceCountsOnceHoweverManyLaunchersItHas) {
  std::map<std::string, LauncherView> views;
  const auto add = [&](const char* ns, bool answered, bool silent) {
    LauncherView view{.ns = ns, .answered_before = answered};
    if (silent) view.unheard_since = Clock::Time{};
    views[std::to_string(views.size())] = view;
  };
  for (int i = 0; i < 100; ++i) add("hostile", true, true);
  for (int i = 0; i < 3; ++i) add("team-a", true, i == 0);
  add("team-b", true, false);
  add("team-c", false, true);  // the launcher may still be starting

  const LaunchersHeard seen = CountLaunchers(views, "team-a");

  EXPECT_EQ(seen.watched, 3);
  EXPECT_EQ(seen.unheard, 1);
  EXPECT_EQ(seen.other_namespaces, 2);
  EXPECT_EQ(seen.silent_namespaces, 1);
}

}  // namespace
}  // namespace ringmaster::job
