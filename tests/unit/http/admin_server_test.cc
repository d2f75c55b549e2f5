#include "operator/http/admin_server.h"

#include <stdexcept>

#include <boost/asio.hpp>
#include <gtest/gtest.h>

#include "operator/http/cpprest_http_client.h"

namespace ringmaster::http {
namespace {

std::string FreeAddress() {
  boost::asio::io_context io;
  const boost::asio::ip::tcp::acceptor taken(
      io, boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  return "127.0.0.1:" + std::to_string(taken.local_endpoint().port());
}

TEST(AdminServer, AnswersItsPagesAndNothingElse) {
  const std::string address = FreeAddress();
  const auto server = AdminServer::Start(
      address, {{"/healthz",
                 [] {
                   return net::HttpAnswer{503, "watch pods: silent\n"};
                 }},
                {"/broken", []() -> net::HttpAnswer { throw std::runtime_error("bug"); }}});
  ASSERT_TRUE(server.ok()) << server.error().message;
  CpprestHttpClientFactory factory;
  const auto client = factory.Make({.base_url = "http://" + address});

  const auto page = (*client)->Send({.path = "/healthz"});
  const auto unknown = (*client)->Send({.path = "/etc/passwd"});
  const auto post = (*client)->Send({.method = Method::kPost, .path = "/healthz"});
  const auto broken = (*client)->Send({.path = "/broken"});

  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page->status, 503);
  EXPECT_EQ(page->body, "watch pods: silent\n");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(post->status, 405);
  EXPECT_EQ(broken->status, 500);
}

bool HasIpv6() {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io);
  boost::system::error_code error;
  acceptor.open(boost::asio::ip::tcp::v6(), error);
  if (!error) acceptor.bind({boost::asio::ip::address_v6::loopback(), 0}, error);
  return !error;
}

// Connects to `host` and returns the first line of the answer to a request of /healthz.
std::string FirstLineOf(const std::string& host, const std::string& port) {
  boost::asio::ip::tcp::iostream stream(host, port);
  stream << "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" << std::flush;
  std::string line;
  std::getline(stream, line);
  return line;
}

TEST(AdminServer, ListensOnAllAddressesOfBothFamiliesByDefault) {
  const std::string address = FreeAddress();
  const std::string port = address.substr(address.find(':') + 1);
  const auto server = AdminServer::Start(":" + port, {{"/healthz", [] {
                                                         return net::HttpAnswer{200, "ok\n"};
                                                       }}});
  ASSERT_TRUE(server.ok()) << server.error().message;

  EXPECT_EQ(FirstLineOf("127.0.0.1", port), "HTTP/1.1 200 OK\r");
  if (HasIpv6()) {
    EXPECT_EQ(FirstLineOf("::1", port), "HTTP/1.1 200 OK\r");
  }
}

TEST(AdminServer, RefusesAnAddressThatIsTaken) {
  const std::string address = FreeAddress();
  const auto first = AdminServer::Start(address, {});
  ASSERT_TRUE(first.ok()) << first.error().message;

  const auto second = AdminServer::Start(address, {});

  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(address), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::http
