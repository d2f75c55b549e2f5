#include "operator/kube/cluster_config.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/unit/kube/temporary_file.h"

namespace ringmaster::kube {
namespace {

Environment FakeEnvironment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- {name: elsewhere, context: {cluster: none, user: none}}\n"
         "- {name: here, context: {cluster: c, user: u, namespace: team-a}}\n"
         "clusters:\n- {name: c, cluster: {" +
         cluster + "}}\nusers:\n- {name: u, user: {" + user + "}}\n";
}

TEST(Kubeconfig, ReadsInlineDataAndToken) {
  TemporaryFolder folder;
  const std::string path = folder.Write(
      "config", Kubeconfig("server: 'https://10.0.0.1:6443/', certificate-authority-data: "
                           "aGVsbG8=, tls-server-name: api",
                           "token: abc, client-certificate-data: Y2VydA==, client-key-data: a2V5"));

  const auto config = LoadKubeconfig(path);

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->server_name, "api");
  EXPECT_EQ(config->ca_pem, "hello");
  EXPECT_EQ(config->token, "abc");
  EXPECT_EQ(config->certificate_pem, "cert");
  EXPECT_EQ(config->key_pem, "key");
  EXPECT_EQ(config->ns, "team-a");
}

TEST(Kubeconfig, ReadsFilesRelativeToItself) {
  TemporaryFolder folder;
  folder.Write("ca.crt", "the authorities");
  const std::string path = folder.Write(
      "config",
      Kubeconfig("server: 'https://h', certificate-authority: ca.crt", "tokenFile: /run/token"));

  const auto config = LoadKubeconfig(path);

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->ca_pem, "the authorities");
  EXPECT_EQ(config->token_file, "/run/token");
}

TEST(Kubeconfig, RefusesWhatItCannotKeepWithASentence) {
  TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    const auto config = LoadKubeconfig(folder.Write("config", text));
    return config.ok() ? std::string("accepted") : config.error().message;
  };
  const std::string cluster = "server: 'https://h'";

  EXPECT_NE(message(Kubeconfig(cluster + ", insecure-skip-tls-verify: true", "token: t"))
                .find("certificate-authority"),
            std::string::npos);
  EXPECT_NE(message(Kubeconfig(cluster, "exec: {command: aws}")).find("\"exec\""),
            std::string::npos);
  EXPECT_NE(message(Kubeconfig(cluster + ", certificate-authority-data: '%%%'", "token: t"))
                .find("base64"),
            std::string::npos);
  EXPECT_EQ(message(Kubeconfig(cluster + ", certificate-authority-data: ' '", "token: t")),
            message(Kubeconfig(cluster, "token: t")))
      << "no data at all";
  EXPECT_NE(message(Kubeconfig(cluster + ", certificate-authority: missing.crt", "token: t"))
                .find("missing.crt"),
            std::string::npos);
  EXPECT_NE(message("current-context: nowhere\n").find("\"nowhere\""), std::string::npos);
  EXPECT_NE(message("a: [b").find("reading kubeconfig"), std::string::npos);
  EXPECT_NE(message("just text").find("YAML map"), std::string::npos);
  EXPECT_NE(message("").find("YAML map"), std::string::npos);
}

TEST(InCluster, ReadsTheServiceAccount) {
  TemporaryFolder folder;
  folder.Write("ca.crt", "ca");
  folder.Write("token", "t");
  folder.Write("namespace", "ringmaster-system");

  const auto config = LoadInCluster(FakeEnvironment({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                                     {"KUBERNETES_SERVICE_PORT", "443"}}),
                                    folder.path());

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->ca_file, folder.path() + "/ca.crt");
  EXPECT_EQ(config->token_file, folder.path() + "/token");
  EXPECT_EQ(config->ns, "ringmaster-system");
}

TEST(InCluster, NamesTheServerWhereTheAddressIsIpv6) {
  TemporaryFolder folder;
  folder.Write("ca.crt", "ca");
  folder.Write("token", "t");

  const auto config = LoadInCluster(
      FakeEnvironment({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}),
      folder.path());

  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->server, "https://kubernetes.default.svc:443");
}

TEST(ClusterConfig, PrefersTheFlagThenTheVariable) {
  TemporaryFolder folder;
  const std::string a = folder.Write("a", Kubeconfig("server: 'https://a'", "token: t"));
  const std::string b = folder.Write("b", Kubeconfig("server: 'https://b'", "token: t"));

  const auto flag = LoadClusterConfig(a, FakeEnvironment({{"KUBECONFIG", b}}));
  const auto variable = LoadClusterConfig("", FakeEnvironment({{"KUBECONFIG", b}}));
  const auto nothing = LoadClusterConfig("", FakeEnvironment({{"HOME", folder.path()}}));

  ASSERT_TRUE(flag.ok());
  EXPECT_EQ(flag->server, "https://a");
  ASSERT_TRUE(variable.ok());
  EXPECT_EQ(variable->server, "https://b");
  ASSERT_FALSE(nothing.ok());
  EXPECT_NE(nothing.error().message.find("--kubeconfig"), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::kube
