#include "operator/http/admin_server.h"

#include <cpprest/http_listener.h>
#include <utility>

namespace ringmaster::http {
namespace {

using web::http::experimental::listener::http_listener;

class CpprestAdminServer final : public AdminServer {
 public:
  CpprestAdminServer(const std::string& address, AdminPages pages)
      : pages_(std::move(pages)), listener_(web::uri("http://" + address)) {
    listener_.support(web::http::methods::GET,
                      [this](const web::http::http_request& request) { Answer(request); });
    listener_.open().wait();
  }

  ~CpprestAdminServer() override {
    try {
      listener_.close().wait();
    } catch (const std::exception&) {
      // It listens no more either way.
    }
  }

 private:
  // Exceptions must not reach the library: it would end the process.
  void Answer(const web::http::http_request& request) const {
    AdminAnswer answer{404, "not found\n"};
    try {
      const auto page = pages_.find(request.relative_uri().path());
      if (page != pages_.end()) answer = page->second();
    } catch (const std::exception& thrown) {
      answer = {500, std::string(thrown.what()) + "\n"};
    }
    web::http::http_response response(static_cast<web::http::status_code>(answer.status));
    response.set_body(std::move(answer.body), answer.content_type);
    request.reply(response).then([](const pplx::task<void>& sent) {
      try {
        sent.get();
      } catch (const std::exception&) {
        // The asker has gone; an unobserved exception would end the process.
      }
    });
  }

  const AdminPages pages_;
  http_listener listener_;
};

}  // namespace

Result<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                        AdminPages pages) {
  try {
    return std::unique_ptr<AdminServer>(
        std::make_unique<CpprestAdminServer>(address, std::move(pages)));
  } catch (const std::exception& thrown) {
    return Error{ErrorKind::kInvalid,
                 "while listening on " + address + " for probes and metrics: " + thrown.what()};
  }
}

}  // namespace ringmaster::http
