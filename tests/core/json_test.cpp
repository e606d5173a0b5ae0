#include "wmtp/core/json.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/core/foreign_json.h"

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
  refused(std::string_view("{}\0", 3), "byte 2 is NUL");
  refused(std::string_view("{}\0{\"a\":1}", 10), "byte 2 is NUL");
  refused(std::string_view("{\"a\0\":1}", 8), "byte 3 is NUL");
}

TEST(ForeignJson, IntegersBeyond64BitsAreDoubles) {
  const Json value = parse_foreign_json(
      R"({"model_max_length":1000000000000000019884624838656,"n":-9223372036854775809,"i":7})",
      "t");
  EXPECT_TRUE(value["model_max_length"].is_number_float());
  EXPECT_EQ(value["model_max_length"].get<double>(), 1e30);
  EXPECT_EQ(value["n"].get<double>(), -9223372036854775808.0);
  EXPECT_EQ(value["i"].get<int>(), 7);
}

TEST(ForeignJson, IsStrictOtherwise) {
  auto refused = [](std::string_view text, std::string_view part) {
    EXPECT_WMTP_ERROR(parse_foreign_json(text, "t.json"), ErrorKind::data, std::string(part));
  };
  refused(R"({"a":1,"a":2})", "duplicate key \"a\"");
  refused(std::string(33, '[') + std::string(33, ']'), "nested deeper than 32");
  refused("{} x", "t.json: parse error");
  refused(std::string_view("{}\0", 3), "byte 2 is NUL");
}

TEST(Json, LimitsBytes) {
  EXPECT_WMTP_ERROR(parse_json("[1,2,3]", "t", {.max_bytes = 3}), ErrorKind::data, "limit is 3");
}

}  // namespace
}  // namespace wmtp
