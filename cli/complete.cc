#include "cli/complete.h"

#include <algorithm>
#include <string_view>

#include "cli/kubectl.h"
#include "cli/kubectl_flags.h"

namespace ringmaster::cli {
namespace {

// The directive that stops kubectl from completing file names.
constexpr char kNoFiles[] = ":4\n";

const KubectlFlag* FlagOf(std::string_view word) {
  for (const KubectlFlag& flag : kKubectlFlags) {
    if (word == flag.name || (flag.short_name[0] != '\0' && word == flag.short_name)) return &flag;
  }
  return nullptr;
}

// Returns the names in the output of `kubectl … -o name`, without types; none if kubectl failed.
std::vector<std::string> Names(const Result<std::string>& printed) {
  std::vector<std::string> names;
  if (!printed.ok()) return names;
  std::string_view rest = *printed;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view name = line.substr(line.rfind('/') + 1);
    if (name.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._@:") ==
        std::string_view::npos) {
      names.emplace_back(name);
    }
  }
  return names;
}

struct Line {
  Arguments flags{};     // kubectl's
  Arguments words{};     // command and names
  std::string before{};  // the previous word
};

bool HasValue(const std::vector<CompletedCommand>& commands, const std::string& word) {
  return std::any_of(commands.begin(), commands.end(), [&](const CompletedCommand& command) {
    return std::find(command.flags_with_value.begin(), command.flags_with_value.end(), word) !=
           command.flags_with_value.end();
  });
}

Line ReadLine(const std::vector<CompletedCommand>& commands,
              const std::vector<std::string>& words) {
  Line line;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    line.before = words[i];
    // The last word, which is being completed, may be the value of the word before it.
    if (HasValue(commands, words[i]) && i + 2 < words.size()) {
      const KubectlFlag* flag = FlagOf(words[i]);
      ++i;
      if (flag != nullptr) line.flags.push_back(std::string(flag->name) + "=" + words[i]);
      line.before.clear();
    } else if (words[i].starts_with("--") && FlagOf(words[i].substr(0, words[i].find('=')))) {
      line.flags.push_back(words[i]);
    } else if (!words[i].starts_with('-')) {
      line.words.push_back(words[i]);
    }
  }
  return line;
}

std::vector<std::string> Suggestions(const std::vector<CompletedCommand>& commands,
                                     const Line& line, const std::string& last) {
  const Kubectl kubectl(line.flags);
  if (line.before == "-n" || line.before == "--namespace") {
    return Names(kubectl.Run({"get", "namespaces", "-o", "name"}));
  }
  if (line.before == "--context")
    return Names(kubectl.Run({"config", "get-contexts", "-o", "name"}));
  if (line.before == "-o" || line.before == "--output") return {"json"};
  if (HasValue(commands, line.before)) return {};
  const auto command = std::find_if(commands.begin(), commands.end(), [&](const auto& each) {
    return !line.words.empty() && each.name == line.words.front();
  });
  std::vector<std::string> suggestions;
  if (last.starts_with('-')) {
    if (command != commands.end()) suggestions = command->flags;
    for (const KubectlFlag& flag : kKubectlFlags) suggestions.emplace_back(flag.name);
  } else if (line.words.empty()) {
    for (const CompletedCommand& each : commands) suggestions.push_back(each.name);
  } else if (command != commands.end() && command->takes_job && line.words.size() == 1) {
    suggestions = Names(kubectl.Run({"get", kJobs, "-o", "name"}));
  }
  return suggestions;
}

}  // namespace

std::string Complete(const std::vector<CompletedCommand>& commands,
                     const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  std::string text;
  for (const std::string& suggestion : Suggestions(commands, ReadLine(commands, words), last)) {
    if (suggestion.starts_with(last)) text += suggestion + "\n";
  }
  return text + kNoFiles;
}

}  // namespace ringmaster::cli
