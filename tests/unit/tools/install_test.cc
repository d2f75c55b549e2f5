#include "worker/tools/install.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"

namespace ringmaster::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class Installing : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/ringmaster-tools-XXXXXX";
    folder = mkdtemp(name.data());
    Write(folder / "program", "new");
  }
  void TearDown() override { fs::remove_all(folder); }

  static void Write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
  Result<void> InstallHere() const {
    return Install({folder / "program", {"all", "one", "two"}, folder / "python"}, folder / "to");
  }
  // Returns the entries of <folder>/to/bin by name: a file's content, or a link's target.
  std::map<std::string, std::string> Installed() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "to/bin")) {
      std::ifstream file(entry.path());
      found[entry.path().filename()] = entry.is_symlink()
                                           ? "-> " + fs::read_symlink(entry.path()).string()
                                           : std::string(std::istreambuf_iterator<char>(file), {});
    }
    return found;
  }

  fs::path folder;
};

auto WholeSet() {
  return UnorderedElementsAre(Pair("all", "new"), Pair("one", "-> all"), Pair("two", "-> all"));
}

TEST_F(Installing, OneFileUnderAllNames) {
  ASSERT_TRUE(InstallHere().ok());

  EXPECT_THAT(Installed(), WholeSet());
  EXPECT_EQ(fs::status(folder / "to/bin/all").permissions(), fs::perms(0755));
}

TEST_F(Installing, ThePackageToWhereAgentsLookForIt) {
  fs::create_directories(folder / "python/package/within");
  Write(folder / "python/package/one.py", "1");
  Write(folder / "python/package/within/two.py", "2");

  ASSERT_TRUE(InstallHere().ok());
  ASSERT_TRUE(InstallHere().ok());

  const fs::path package = folder / "to" / control::kPythonFolder / "package";
  std::ifstream one(package / "one.py");
  EXPECT_EQ(one.get(), '1');
  EXPECT_EQ(fs::status(package / "one.py").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::file_size(package / "within/two.py"), 1U);
  EXPECT_THAT(Installed(), WholeSet());
}

TEST_F(Installing, AgainWhereItWasEndedHalfWay) {
  fs::create_directories(folder / "to/bin");
  Write(folder / "to/bin/all", "ne");
  fs::permissions(folder / "to/bin/all", fs::perms(0600));
  Write(folder / "to/bin/all.new", "n");
  fs::create_symlink("all", folder / "to/bin/one.new");
  Write(folder / "to/bin/two", "of another release");

  ASSERT_TRUE(InstallHere().ok());
  ASSERT_TRUE(InstallHere().ok());

  EXPECT_THAT(Installed(), WholeSet());
  EXPECT_EQ(fs::status(folder / "to/bin/all").permissions(), fs::perms(0755));
}

TEST_F(Installing, SaysWhatIsInTheWay) {
  Write(folder / "to", "");

  const Result<void> installed = InstallHere();

  ASSERT_FALSE(installed.ok());
  EXPECT_THAT(installed.error().message,
              HasSubstr("while installing into " + (folder / "to").string()));
  EXPECT_THAT(installed.error().message, HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace ringmaster::tools
