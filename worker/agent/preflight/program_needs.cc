#include "worker/agent/preflight/program_needs.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "common/process/process.h"
#include "worker/agent/preflight/program_file.h"

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMostNamed = 5;  // maximum number of libraries in a message

// Returns the program that the kernel executes for the command: for a script, its interpreter.
ProgramFile Executable(const Config& config) {
  const std::string path = config.Path();
  ProgramFile file(FindProgram(config.spec.command.front(), path));
  const std::vector<std::string> interpreters = file.Interpreters();
  return interpreters.empty() ? file : ProgramFile(FindProgram(interpreters.back(), path));
}

std::vector<std::string> ContainersEnvironment(const Config& config) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : config.container) environment.push_back(name + '=' + value);
  return environment;
}

// Returns each library or version that a loader's listing reports as missing, once. glibc prints
// "libfoo.so => not found" and "libc.so.6: version `GLIBC_2.38' not found (required by …)", musl
// prints "Error loading shared library libfoo.so: …".
std::vector<std::string> NotFound(const std::string& listing) {
  constexpr std::string_view kMusl = "Error loading shared library ";
  std::vector<std::string> missing;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    std::string name;
    if (const std::size_t arrow = line.find(" => not found"); arrow != std::string::npos) {
      name = line.substr(0, arrow);
    } else if (line.starts_with(kMusl)) {
      name = line.substr(kMusl.size(), line.find(':') - kMusl.size());
    } else if (const std::size_t version = line.find(": version `"); version != std::string::npos) {
      const std::size_t quote = line.find('\'', version);
      const std::string library = std::filesystem::path(line.substr(0, version)).filename();
      if (quote != std::string::npos) {
        name = library + " of version " + line.substr(version + 11, quote - version - 11);
      }
    }
    if (!name.empty() && std::ranges::find(missing, name) == missing.end()) {
      missing.push_back(std::move(name));
    }
  }
  return missing;
}

std::optional<Finding> JudgeListing(const std::string& file, const std::string& listing) {
  const std::vector<std::string> missing = NotFound(listing);
  if (missing.empty()) return std::nullopt;
  return Finding{
      "libraries",
      "\"" + file +
          "\" needs shared libraries that are not found here: " + ListText(missing, kMostNamed) +
          "; install them in the image or add their folder to LD_LIBRARY_PATH (worker.env)"};
}

std::optional<Question> AskLoader(const Config& config) {
  const ProgramFile file = Executable(config);
  const std::string loader = file.Loader();
  if (loader.empty()) return std::nullopt;
  Question question;
  question.environment = ContainersEnvironment(config);
  if (std::filesystem::path(loader).filename().string().starts_with("ld-linux")) {
    // As in ldd, this variable makes glibc's loader list all libraries, even if some are missing.
    question.environment.emplace_back("LD_TRACE_LOADED_OBJECTS=1");
    question.argv = {loader, file.path()};
  } else {
    question.argv = {loader, "--list", file.path()};
  }
  question.judge = [path = file.path()](const std::string& listing) {
    return JudgeListing(path, listing);
  };
  return question;
}

// Prints PyTorch's version and the versions of CUDA and ROCm in its build. Does not load PyTorch.
constexpr char kAskTorch[] = R"(
import importlib.util, os, runpy
spec = importlib.util.find_spec("torch")
if spec and spec.submodule_search_locations:
    said = runpy.run_path(os.path.join(spec.submodule_search_locations[0], "version.py"))
    print("torch", said["__version__"], said.get("cuda"), said.get("hip"))
else:
    print("torch none")
)";

struct Torch {
  std::string version;  // empty: PyTorch is not installed
  bool computes_on_gpus = false;
};

// Returns nothing if the answer has no line about PyTorch.
std::optional<Torch> TorchIn(const std::string& answer) {
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::string version;
    std::string cuda;
    std::string hip;
    words >> name >> version >> cuda >> hip;
    if (name != "torch") continue;
    if (version == "none") return Torch{};
    return Torch{version, cuda != "None" || hip != "None"};
  }
  return std::nullopt;
}

// Returns whether the program computes with PyTorch and with no other library that uses GPUs.
bool ComputesWithTorch(const std::vector<std::string>& command) {
  const std::string program = std::filesystem::path(command.front()).filename();
  if (program == "torchrun") return true;
  return std::ranges::any_of(command, [](const std::string& word) {
    return !ImportedModule(word, {"torch"}).empty() &&
           ImportedModule(word, {"jax", "tensorflow"}).empty();
  });
}

// The oldest PyTorch that `import ringmaster` supports (worker/python).
constexpr std::pair kOldestTorch{2, 2};
constexpr char kOldestTorchText[] = "2.2";

bool TooOld(const std::string& version) {
  std::istringstream text(version);
  std::pair<int, int> number;
  char point = 0;
  return text >> number.first >> point >> number.second && number < kOldestTorch;
}

std::optional<Finding> JudgeTorchInPlace(const std::string& version, const std::string& python,
                                         int gpus) {
  const auto finding = [](const std::string& text, bool fatal, bool fault) {
    return Finding{"torch", text, fatal, fault};
  };
  if (version.empty()) {
    return finding(
        "the program's Python (" + python + ") has no PyTorch, and import ringmaster " + "needs " +
            kOldestTorchText +
            " or newer; install it in the image or add its folder to PYTHONPATH (worker.env)",
        false, true);
  }
  if (TooOld(version)) {
    return finding("the image's PyTorch is " + version + ", but mode InPlace needs " +
                       kOldestTorchText +
                       " or newer; use a newer image or set spec.elasticity.mode to Restart",
                   true, true);
  }
  return finding("the program's PyTorch is " + version + ", which mode InPlace supports" +
                     (gpus > 0 ? "; NCCL support is experimental" : ""),
                 false, false);
}

std::optional<Finding> JudgeTorch(const Config& config, const std::string& python,
                                  const std::string& answer) {
  const std::optional<Torch> torch = TorchIn(answer);
  if (!torch) return std::nullopt;
  if (config.gpus > 0 && !torch->version.empty() && !torch->computes_on_gpus) {
    return Finding{"torch",
                   "the image's PyTorch (" + torch->version +
                       ") is built without CUDA, but this worker was assigned " +
                       CountText(config.gpus, "GPU") + "; install a build of PyTorch with CUDA",
                   ComputesWithTorch(config.spec.command)};
  }
  if (!config.spec.InPlace()) return std::nullopt;
  return JudgeTorchInPlace(torch->version, python, config.gpus);
}

std::optional<Question> AskTorch(const Config& config) {
  if (config.gpus == 0 && !config.spec.InPlace()) return std::nullopt;
  const std::string python = Executable(config).path();
  if (!std::filesystem::path(python).filename().string().starts_with("python")) {
    return std::nullopt;
  }
  return Question{
      {python, "-c", kAskTorch},
      ContainersEnvironment(config),
      [config, python](const std::string& answer) { return JudgeTorch(config, python, answer); }};
}

}  // namespace

std::vector<Question> QuestionsAboutProgram(const Config& config) {
  std::vector<Question> questions;
  for (const auto ask : {AskLoader, AskTorch}) {
    if (std::optional<Question> question = ask(config)) questions.push_back(std::move(*question));
  }
  return questions;
}

}  // namespace ringmaster::agent
