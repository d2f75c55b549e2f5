#include "tests/integration/harness/plain_http.h"

#include <cctype>

#include "tests/integration/harness/tls.h"

namespace ringmaster::testing {

PlainAnswer PlainGet(int port, const std::string& path) {
  ErrorCode error;
  net::io_context io;
  net::ip::tcp::socket socket(io);
  socket.connect({net::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)}, error);
  if (error) return {};
  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host, "127.0.0.1");
  request.keep_alive(false);
  http::write(socket, request, error);
  http::response<http::string_body> response;
  boost::beast::flat_buffer buffer;
  if (!error) http::read(socket, buffer, response, error);
  if (error) return {};
  return {static_cast<int>(response.result_int()), response.body()};
}

std::string PercentEncode(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return encoded;
}

}  // namespace ringmaster::testing
