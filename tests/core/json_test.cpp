#include "wmtp/core/json.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp {
namespace {

TEST(Json, ReadsWhatIsWellFormed) {
  const Json value = parse_json(R"({"a":[1,-2,18446744073709551615,1e3],"b":{"a":null}})", "t");
  EXPECT_EQ(value["a"][2].get<std::uint64_t>(), 18446744073709551615u);
}

TEST(Json, RefusesByName) {
  auto refused = [](std::string_view text, std::string_view part) {
    EXPECT_WMTP_ERROR(parse_json(text, "t.json"), ErrorKind::data, std::string(part));
  };
  refused(R"({"a":1,"a":2})", "duplicate key \"a\"");
  refused("18446744073709551616", "does not fit 64 bits");
  refused(std::string(33, '[') + std::string(33, ']'), "nested deeper than 32");
  refused("{\"a\":", "t.json: parse error");
  refused("\"\xff\"", "t.json: parse error");
  refused("{} x", "t.json: parse error");
}

TEST(Json, LimitsBytes) {
  EXPECT_WMTP_ERROR(parse_json("[1,2,3]", "t", {.max_bytes = 3}), ErrorKind::data, "limit is 3");
}

}  // namespace
}  // namespace wmtp
