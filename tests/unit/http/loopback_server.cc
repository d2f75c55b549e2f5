#include "tests/unit/http/loopback_server.h"

#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace ringmaster::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string PemOf(const std::function<void(BIO*)>& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
  write(memory.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::size_t ContentLength(const std::string& head) {
  const std::string name = "Content-Length:";
  const std::size_t at = head.find(name);
  return at == std::string::npos ? 0 : std::stoul(head.substr(at + name.size()));
}

template <typename Stream>
class StreamReply final : public Reply {
 public:
  explicit StreamReply(Stream& stream) : stream_(stream) {}

  bool Write(const std::string& bytes) override {
    boost::system::error_code error;
    asio::write(stream_, asio::buffer(bytes), error);
    return !error;
  }
  void Close() override { closed = true; }
  void WaitUntilClientCloses() override {
    boost::system::error_code error;
    char byte = 0;
    while (!error) stream_.read_some(asio::buffer(&byte, 1), error);
    closed = true;
  }

  bool closed = false;

 private:
  Stream& stream_;
};

template <typename Stream>
void ServeRequests(Stream& stream, int connection, const LoopbackServer::Handler& handler) {
  std::string buffer;
  boost::system::error_code error;
  StreamReply<Stream> reply(stream);
  while (!reply.closed) {
    const std::size_t head_size =
        asio::read_until(stream, asio::dynamic_buffer(buffer), "\r\n\r\n", error);
    if (error) return;
    SeenRequest request{buffer.substr(0, head_size), {}, connection};
    buffer.erase(0, head_size);
    const std::size_t body_size = ContentLength(request.head);
    while (buffer.size() < body_size && !error) {
      asio::read(stream, asio::dynamic_buffer(buffer),
                 asio::transfer_exactly(body_size - buffer.size()), error);
    }
    if (error) return;
    request.body = buffer.substr(0, body_size);
    buffer.erase(0, body_size);
    handler(request, reply);
  }
}

}  // namespace

std::string PlainAnswer(int status, const std::string& body, const std::string& extra_headers) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
         extra_headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct LoopbackServer::Impl {
  Handler handler;
  asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::unique_ptr<asio::ssl::context> tls;
  std::mutex mutex;
  std::list<tcp::socket> open;  // guarded by mutex; closed by the destructor
  std::vector<std::thread> serving;
  std::atomic<int> connections{0};
  std::atomic<bool> stopping{false};
  std::thread accepting;

  void Accept() {
    while (true) {
      boost::system::error_code error;
      tcp::socket socket(io);
      acceptor.accept(socket, error);
      if (error || stopping) return;
      const std::lock_guard lock(mutex);
      auto kept = open.insert(open.end(), std::move(socket));
      const int number = ++connections;
      serving.emplace_back([this, kept, number] { Serve(*kept, number); });
    }
  }

  void Serve(tcp::socket& socket, int number) {
    boost::system::error_code error;
    if (tls == nullptr) {
      ServeRequests(socket, number, handler);
    } else {
      asio::ssl::stream<tcp::socket&> stream(socket, *tls);
      stream.handshake(asio::ssl::stream_base::server, error);
      if (!error) ServeRequests(stream, number, handler);
    }
    socket.shutdown(tcp::socket::shutdown_both, error);
  }
};

LoopbackServer::Identity LoopbackServer::MakeIdentity(const std::string& name, bool ip) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  const std::string names = ip ? "IP:127.0.0.1" : "DNS:" + name;
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), nullptr);
  return {PemOf([&](BIO* out) { PEM_write_bio_X509(out, certificate.get()); }),
          PemOf([&](BIO* out) {
            PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

LoopbackServer::LoopbackServer(Handler handler, const Identity* identity)
    : impl_(std::make_unique<Impl>()) {
  impl_->handler = std::move(handler);
  if (identity != nullptr) {
    impl_->tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    impl_->tls->use_certificate_chain(asio::buffer(identity->certificate_pem));
    impl_->tls->use_private_key(asio::buffer(identity->key_pem), asio::ssl::context::pem);
  }
  impl_->accepting = std::thread([this] { impl_->Accept(); });
}

LoopbackServer::~LoopbackServer() {
  impl_->stopping = true;
  boost::system::error_code error;
  // Connect to end accept(): closing the socket from another thread would not end it.
  tcp::socket waker(impl_->io);
  waker.connect(impl_->acceptor.local_endpoint(), error);
  impl_->accepting.join();
  {
    const std::lock_guard lock(impl_->mutex);
    for (tcp::socket& socket : impl_->open) ::shutdown(socket.native_handle(), SHUT_RDWR);
  }
  for (std::thread& thread : impl_->serving) thread.join();
}

std::string LoopbackServer::url() const {
  return (impl_->tls == nullptr ? "http://127.0.0.1:" : "https://127.0.0.1:") +
         std::to_string(impl_->acceptor.local_endpoint().port());
}

int LoopbackServer::connections() const { return impl_->connections; }

}  // namespace ringmaster::http
