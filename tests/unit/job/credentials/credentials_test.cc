#include "operator/job/credentials/credentials.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "common/base/hex.h"
#include "common/control/pod_contract.h"
#include "common/control/tls.h"
#include "operator/job/credentials/key_derivation.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

constexpr char kUid[] = "0f8fad5b-d9cb-469f-a165-70867728950e";
const Seed kSeed{.id = "a1b2c3d4", .bytes = std::string(32, '\x07')};

Credentials Derive(const Seed& seed = kSeed, const std::string& uid = kUid) {
  auto credentials = DeriveCredentials(seed, "digits", uid);
  EXPECT_TRUE(credentials.ok());
  return *std::move(credentials);
}

// A temporary folder for the programs that check the generated files.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "credentials.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path) << content;
    chmod(path.c_str(), 0600);
    return path;
  }

 private:
  std::string path_;
};

std::string Output(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    out.append(buffer.data(), count);
  pclose(pipe);
  return out;
}

TEST(KeyDerivation, HkdfMeetsRfc5869) {
  const std::string secret(22, '\x0b');
  std::string salt;
  for (char byte = 0; byte <= 12; ++byte) salt.push_back(byte);
  std::string info;
  for (int byte = 0xf0; byte <= 0xf9; ++byte) info.push_back(static_cast<char>(byte));

  const auto derived = Hkdf(secret, salt, info, 42);

  ASSERT_TRUE(derived.ok());
  EXPECT_EQ(HexOf(*derived),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Credentials, AreTheSameEveryTime) {
  EXPECT_EQ(Derive().items, Derive().items);
  EXPECT_EQ(Derive().secret_name, Derive().secret_name);
}

TEST(Credentials, DifferInEveryItemForEveryJobAndSeed) {
  const Credentials one = Derive();
  const Seed other_seed{.id = "b", .bytes = std::string(32, '\x08')};
  for (const Credentials& other : {Derive(kSeed, "another-uid"), Derive(other_seed)}) {
    EXPECT_NE(one.secret_name, other.secret_name);
    for (const auto& [item, content] : one.items) EXPECT_NE(content, other.Item(item)) << item;
  }
}

TEST(Credentials, SecretNameIsTheJobsWithTenHexDigits) {
  const std::string name = Derive().secret_name;

  EXPECT_EQ(name.substr(0, 11), "digits-ssh-");
  EXPECT_EQ(name.size(), 21u);
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 11), std::string::npos);
}

TEST(Credentials, SshKeygenReadsThePrivateKeysAndFindsThePublicLines) {
  if (Output("command -v ssh-keygen").empty()) GTEST_SKIP() << "skipped: no ssh-keygen";
  const Credentials credentials = Derive();
  const Scratch scratch;
  for (const auto& [key, line] :
       {std::pair{control::kItemSshUserKey, control::kItemSshUserPublicKey},
        std::pair{control::kItemSshHostKey, control::kItemSshHostPublicKey}}) {
    const std::string path = scratch.Write(key, credentials.Item(key));

    EXPECT_EQ(Output("ssh-keygen -y -P '' -f " + path), credentials.Item(line));
  }
}

TEST(Credentials, OpensslAcceptsTheCertificateUnderItsNameAlone) {
  const Credentials credentials = Derive();
  const Scratch scratch;
  const std::string path = scratch.Write("tls.crt", credentials.Item(control::kItemTlsCertificate));
  const std::string verify =
      "openssl verify -x509_strict -partial_chain -CAfile " + path + " -verify_hostname ";

  EXPECT_NE(Output(verify + "launcher." + kUid + ".ringmaster.dev " + path).find(": OK"),
            std::string::npos)
      << Output(verify + "launcher." + kUid + ".ringmaster.dev " + path);
  EXPECT_EQ(Output(verify + "launcher.other.ringmaster.dev " + path).find(": OK"),
            std::string::npos);
}

TEST(Credentials, BothSidesOfTheChannelTakeThem) {
  const Credentials credentials = Derive();

  EXPECT_TRUE(control::TlsContext::Server(credentials.Item(control::kItemTlsKey),
                                          credentials.Item(control::kItemTlsCertificate))
                  .ok());
  EXPECT_TRUE(control::TlsContext::Client(credentials.Item(control::kItemTlsCertificate),
                                          control::TlsServerName(kUid))
                  .ok());
}

TEST(Credentials, SecretIsImmutableAndComplete) {
  const api::TrainingJob job = ringmaster::testing::JobBuilder().Build();
  const Credentials credentials = Derive();

  const nlohmann::json secret = SecretManifest(job, credentials);

  EXPECT_EQ(secret["immutable"], true);
  EXPECT_EQ(secret["metadata"]["name"], credentials.secret_name);
  ASSERT_EQ(secret["data"].size(), credentials.items.size());
  for (const auto& [item, content] : credentials.items) {
    EXPECT_EQ(DecodeBase64(secret["data"][item].get<std::string>()), content);
  }
}

TEST(Credentials, CacheKeepsThemUntilForgotten) {
  CredentialsCache cache;

  const auto first = *cache.Get(kSeed, "digits", kUid);

  EXPECT_EQ(first, *cache.Get(kSeed, "digits", kUid));
  cache.Forget(kUid);
  EXPECT_NE(first, *cache.Get(kSeed, "digits", kUid));
}

}  // namespace
}  // namespace ringmaster::job
