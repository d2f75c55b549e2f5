#include "operator/job/model/launcher_view.h"

namespace ringmaster::job {

LaunchersHeard CountLaunchers(const std::map<std::string, LauncherView>& views,
                              std::string_view ns) {
  struct Count {
    int watched = 0;
    int unheard = 0;
  };
  std::map<std::string_view, Count> by_namespace;
  for (const auto& [uid, view] : views) {
    if (!view.status && !view.answered_before) continue;  // this launcher may still be starting
    Count& count = by_namespace[view.ns];
    ++count.watched;
    count.unheard += view.unheard_since ? 1 : 0;
  }
  LaunchersHeard all;
  for (const auto& [name, count] : by_namespace) {
    if (name == ns) {
      all.watched = count.watched;
      all.unheard = count.unheard;
    } else {
      ++all.other_namespaces;
      all.silent_namespaces += Most(count.unheard, count.watched) ? 1 : 0;
    }
  }
  return all;
}

}  // namespace ringmaster::job
