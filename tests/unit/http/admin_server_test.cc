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
