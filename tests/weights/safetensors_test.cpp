#include "wmtp/weights/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::weights {
namespace {

using test::slurp;
using test::TempDir;
using test::write_file;

std::string file_of(std::string_view json, std::string_view data) {
  const std::uint64_t size = json.size();
  std::string bytes(reinterpret_cast<const char*>(&size), 8);
  return bytes.append(json).append(data);
}

storage::SafetensorsHeader parse_file(std::string_view bytes) {
  return storage::parse_safetensors_header(std::as_bytes(std::span(bytes.data(), bytes.size())),
                                           bytes.size(), "t.safetensors");
}

TEST(Safetensors, WrittenFilesReadBack) {
  TempDir folder;
  const auto path = folder / "m.safetensors";
  const auto sink =
      create_safetensors(path,
                         {{"b", StoredDtype::F32, {2, 2}, 0, 0},
                          {"a", StoredDtype::F32, {}, 0, 0},
                          {"long", StoredDtype::I64, {1}, 0, 0},
                          {"empty", StoredDtype::BF16, {0, 7}, 0, 0}},
                         {{"note", "quote \" slash \\ newline \n bell \a umlaut \xc3\xa4"}}, 0600);
  for (const auto& [name, size] :
       std::map<std::string, std::size_t>{{"a", 4}, {"b", 16}, {"empty", 0}, {"long", 8}})
    sink->put(name, std::vector<std::byte>(size, std::byte(name[0])));
  sink->finish();
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.find("long")->begin, 0u);
  EXPECT_EQ(file.find("a")->begin, 8u);
  EXPECT_EQ(file.find("b")->begin, 12u);
  EXPECT_EQ(file.data_begin() % 8, 0u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("note"), "quote \" slash \\ newline \n bell \a umlaut \xc3\xa4");
  ASSERT_NE(file.find("b"), nullptr);
  EXPECT_EQ(file.find("b")->shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file.bytes(*file.find("b")).size(), 16u);
  EXPECT_EQ(file.bytes(*file.find("b"))[0], std::byte('b'));
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(parse_file(file_of("{}", "")).tensors.size(), 0u);
  const auto header =
      parse_file(file_of(" {\n \"z\\u00e9\\ud83d\\ude00\" : {\"shape\":[ ], \"data_offsets\":[4,8] "
                         ",\"dtype\":\"F32\"},"
                         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                         "\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[4,4]}}   " +
                             1,
                         "12345678"));
  EXPECT_EQ(header.tensors[2].name, "z\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(parse_file(file_of(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x"))
                .tensors.size(),
            1u);
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string f32 = "\"F32\"";
  const std::pair<std::string, const char*> cases[] = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {std::string(8, '\0'), "does not begin with '{'"},
      {std::string("\0\0\0\0\0\0\0\x80", 8), "header of 9223372036854775808 bytes, the limit"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "the limit is 100000000"},
      {std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "header of 100000001 bytes"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "header 16 bytes > file 10 bytes"},
      {file_of("[]", ""), "does not begin with '{'"},
      {file_of(" {}", ""), "does not begin with '{'"},
      {file_of("{", ""), "expected '\"', found the end"},
      {file_of("{}x", ""), "'x' after the end"},
      {file_of("{}\xff", ""), "not UTF-8 at byte 10"},
      {file_of("{\"\xc0\xaf\":{}}", ""), "not UTF-8 at byte 10"},
      {file_of("{\"\xed\xa0\x80\":{}}", ""), "not UTF-8"},
      {file_of("{\"a\\ud800\":{}}", ""), "lone surrogate"},
      {file_of("{\"a\\x\":{}}", ""), "bad escape"},
      {file_of("{\"a\n\":{}}", ""), "control character"},
      {file_of("{\"a", ""), "a string does not end"},
      {file_of("{\"a\":1}", ""), "expected '{', found '1'"},
      {file_of("{\"a\":{}}", ""), "expected '\"'"},
      {file_of("{\"a\":{\"dtype\":\"F32\"}}", ""), "lacks shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[]}})", ""), "lacks data_offsets"},
      {file_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", "1234"),
       "unknown field \"x\""},
      {file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234"),
       "repeated"},
      {file_of(entry("\"F33\"", "[1]", "[0,4]"), "1234"), "unknown dtype \"F33\""},
      {file_of(entry("32", "[1]", "[0,4]"), "1234"), "expected '\"'"},
      {file_of(entry(f32, "[-1]", "[0,4]"), "1234"), "non-negative integer"},
      {file_of(entry(f32, "[1.0]", "[0,4]"), "1234"), "non-negative integer"},
      {file_of(entry(f32, "[1e0]", "[0,4]"), "1234"), "non-negative integer"},
      {file_of(entry(f32, "[01]", "[0,4]"), "1234"), "leading zero"},
      {file_of(entry(f32, "[18446744073709551616]", "[0,4]"), "1234"), "does not fit 64 bits"},
      {file_of(entry(f32, "[9223372036854775808]", "[0,4]"), "1234"),
       "extent of 9223372036854775808"},
      {file_of(entry(f32, "[4294967296,4294967296]", "[0,0]"), ""), "overflows"},
      {file_of(entry(f32, "[4611686018427387904]", "[0,0]"), ""), "overflows"},
      {file_of(entry(f32, "[0,9223372036854775807,4]", "[0,4]"), "1234"),
       "needs 0 bytes, its offsets span 4"},
      {file_of(entry(f32, "[1]", "[4,0]"), "1234"), "before its begin 4"},
      {file_of(entry(f32, "[1]", "[0,5]"), "12345"), "needs 4 bytes, its offsets span 5"},
      {file_of(entry(f32, "[1]", "[-4,0]"), "1234"), "non-negative integer"},
      {file_of(entry(f32, "[1]", "[0]"), "1234"), "expected ','"},
      {file_of(entry(f32, "[1]", "[0,4,8]"), "1234"), "expected ']'"},
      {file_of(entry("\"F4\"", "[3]", "[0,1]"), "1"), "ends inside a byte"},
      {file_of(entry(f32, "[1]", "[4,8]"), "12345678"),
       "begins at data byte 4, 0 was expected (a hole)"},
      {file_of(entry(f32, "[1]", "[0,4]"), "12345"), "need 4 data bytes, the file holds 5"},
      {file_of(entry(f32, "[1]", "[0,4]"), "123"), "need 4 data bytes, the file holds 3"},
      {file_of(entry(f32, "[1]", "[18446744073709551612,18446744073709551616]"), ""), "64 bits"},
      {file_of(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
           "123456"),
       "an overlap"},
      {file_of(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           "123"),
       "a hole"},
      {file_of(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           "12"),
       "\"a\" occurs twice"},
      {file_of(
           R"({"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           "12"),
       "\"a\" occurs twice"},
      {file_of(R"({"__metadata__":{"a":1}})", ""), "expected '\"', found '1'"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "metadata key \"a\" occurs twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "occurs twice"},
      {file_of(R"({"__metadata__":{"a":{}}})", ""), "expected '\"', found '{'"},
      {file_of(R"({"__metadata__":null})", ""), "expected '{'"},
      {file_of(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234"),
       "non-negative integer"},
      {file_of("{" + std::string(100000, '{'), ""), "expected '\"'"},
      {file_of(entry(f32, "[" + std::string(99998, '['), "[0,4]"), "1234"), "non-negative integer"},
      {file_of(fmt::format(R"({{"{}":{{}}}})", std::string(4097, 'n')), ""),
       "a name of 4097 bytes"},
      {file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})", "1"), "expected '\"'"},
  };
  for (const auto& [bytes, fact] : cases)
    EXPECT_WMTP_ERROR(parse_file(bytes), ErrorKind::data, fact);
  std::string many = "[1";
  for (int i = 0; i < 10000; ++i) many += ",1";
  EXPECT_WMTP_ERROR(parse_file(file_of(entry(f32, many + "]", "[0,4]"), "1234")), ErrorKind::data,
                    "more than 64 dimensions");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = file_of(entry("\"F32\"", "[2]", "[0,8]"), "12345678");
  EXPECT_NO_THROW(parse_file(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(parse_file(whole.substr(0, size)), Error) << size;
  EXPECT_THROW(parse_file(whole + "9"), Error);
}

TEST(Safetensors, AMillionTensorsTakeBoundedTimeAndOneMoreIsRefused) {
  std::string json = "{";
  for (int i = 0; i < 1'000'000; ++i)
    json += fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  std::string more = json + R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  json.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_file(file_of(json, "")).tensors.size(), 1'000'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_WMTP_ERROR(parse_file(file_of(more, "")), ErrorKind::data, "more than 1000000 tensors");
}

}  // namespace
}  // namespace wmtp::weights
