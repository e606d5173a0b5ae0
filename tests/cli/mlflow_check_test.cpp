#include "wmtp/cli/doctor/mlflow_check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {
namespace {

using ::testing::HasSubstr;

// Answers each request, one a connection, by what is asked for: a version, or one of the
// experiments. All else does not exist.
class CannedTracker {
 public:
  explicit CannedTracker(std::string experiments) : experiments_(std::move(experiments)) {
    listening_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listening_.get(), generic, size), 0);
    EXPECT_EQ(::listen(listening_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listening_.get(), generic, &size), 0);
    uri = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~CannedTracker() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // ends the accept
    thread_.join();
  }
  std::string uri;

 private:
  void serve() {
    for (;;) {
      const UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;
      std::string request(4096, '\0');
      const ssize_t size = ::recv(client.get(), request.data(), request.size(), 0);
      request.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
      const std::string answer = answer_to(request.substr(0, request.find('\r')));
      (void)!::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
  std::string answer_to(const std::string& line) const {
    int status = 200;
    std::string body = "3.17.2";
    if (line.find("/version") == line.npos) {
      const std::size_t name = line.find("experiment_name=") + 16;
      const std::string wanted = line.substr(name, line.find(' ', name) - name);
      const std::size_t found = experiments_.find(wanted + "=");
      if (found == experiments_.npos) {
        status = 404;
        body = R"({"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no such experiment"})";
      } else {
        const std::size_t begin = found + wanted.size() + 1;
        body = fmt::format(R"({{"experiment":{{"experiment_id":"7",{}}}}})",
                           experiments_.substr(begin, experiments_.find(';', begin) - begin));
      }
    }
    return fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", status,
                       body.size(), body);
  }

  std::string experiments_;
  UniqueFd listening_;
  std::thread thread_;
};

constexpr const char* kExperiments =
    R"(Default="artifact_location":"mlflow-artifacts:/0";)"
    R"(there="artifact_location":"s3://bucket/7";)"
    R"(gone="artifact_location":"mlflow-artifacts:/7","lifecycle_stage":"deleted";)";

Check finding(const std::string& experiment, const std::string& name) {
  const CannedTracker tracker(kExperiments);
  for (const Check& check : check_mlflow({tracker.uri, experiment}, {}))
    if (check.name == name) return check;
  ADD_FAILURE() << "no line about " << name;
  return {};
}

TEST(DoctorMlflow, ExperimentsAreThereOrWillBeOrAreGone) {
  EXPECT_EQ(finding("there", "experiment").fact, "\"there\" is there (id 7)");
  EXPECT_EQ(finding("new", "experiment").fact, "\"new\" is not there yet: the first run makes it");
  EXPECT_EQ(finding("new", "experiment").health, Health::ok);
  const Check gone = finding("gone", "experiment");
  EXPECT_EQ(gone.health, Health::fail);
  EXPECT_EQ(gone.fact, "\"gone\" (id 7) was deleted");
  EXPECT_THAT(gone.fix, HasSubstr("mlflow experiments restore -x 7"));
}

TEST(DoctorMlflow, ArtifactStoresAreThoseOfTheExperiment) {
  EXPECT_EQ(finding("new", "artifacts").fact, "through the server");
  EXPECT_EQ(finding("there", "artifacts").fact, "to the bucket s3://bucket/7");
}

TEST(DoctorMlflow, PlainHttpToAnotherMachineIsWarnedOf) {
  const std::vector<Check> checks = check_mlflow({"http://mlflow.invalid", ""}, {});
  ASSERT_GE(checks.size(), 4U);
  EXPECT_EQ(checks[2].name, "TLS");
  EXPECT_EQ(checks[2].health, Health::warn);
  EXPECT_EQ(checks[3].name, "reachable");
  EXPECT_EQ(checks[3].health, Health::fail);
  EXPECT_NE(checks[3].fix, "");
}

}  // namespace
}  // namespace wmtp::cli
