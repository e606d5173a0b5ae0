// What needs no server; the rest is in tests/integration/test_s3_checkpoints.py.
#include "wmtp/s3/files/s3_file_system.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/expect_error.h"
#include "wmtp/s3/files/s3_input.h"

namespace wmtp::s3 {
namespace {

S3FileSystem bucket_files() {
  Options options;
  options.bucket = "my-bucket";
  return S3FileSystem(open_session(options));
}

template <class Call>
int errno_of_call(Call&& call) {
  try {
    call();
  } catch (const storage::FileError& error) {
    return error.code();
  }
  return 0;
}

template <class Thrown>
int errno_for(const Thrown& thrown) {
  return errno_of_call([&] {
    try {
      throw thrown;
    } catch (...) {
      throw_as_file_error();
    }
  });
}

TEST(S3FileSystem, RefusesToWrite) {
  S3FileSystem files = bucket_files();
  const std::filesystem::path path = "s3://my-bucket/a";
  EXPECT_EQ(errno_of_call([&] { files.create_folder(path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.create_file(path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.rename(path, path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.sync_folder(path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.remove_file(path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.remove_folder(path); }), EROFS);
  EXPECT_EQ(errno_of_call([&] { files.free_bytes(path); }), EROFS);
  EXPECT_WMTP_ERROR(files.remove_file(path), ErrorKind::io, "cannot remove s3://my-bucket/a");
}

TEST(S3FileSystem, TheBucketItselfIsAFolder) {
  EXPECT_EQ(bucket_files().status("s3://my-bucket").kind, storage::FileKind::folder);
  EXPECT_EQ(bucket_files().status("s3://my-bucket/").kind, storage::FileKind::folder);
}

TEST(S3FileSystem, NamesFromFilesMayPlayNoTricks) {
  const S3FileSystem files = bucket_files();
  for (const char* name : {"", "/a", "a/../b", "./a", "a//b"})
    EXPECT_WMTP_ERROR(files.open("s3://my-bucket/folder", name, "manifest.json"), ErrorKind::data,
                      "manifest.json");
}

TEST(S3FileErrors, SayWhatAFileSystemWouldSay) {
  const auto refused = [](Problem problem, int status) {
    return S3Error(problem, status, "Code", "the fact", "the hint");
  };
  EXPECT_EQ(errno_for(refused(Problem::not_found, 404)), ENOENT);
  EXPECT_EQ(errno_for(refused(Problem::denied, 403)), EACCES);
  EXPECT_EQ(errno_for(refused(Problem::bad_digest, 206)), ESTALE);
  EXPECT_EQ(errno_for(refused(Problem::refused, 416)), ESTALE);
  EXPECT_EQ(errno_for(refused(Problem::busy, 503)), EIO);
  EXPECT_EQ(errno_for(http::Failure(http::FailureKind::timeout, "no answer")), EIO);
  try {
    errno_for(refused(Problem::bad_keys, 403));
    FAIL() << "wrong keys are no error of a file";
  } catch (const S3Error& error) {
    EXPECT_EQ(error.problem(), Problem::bad_keys);
  }
  try {
    try {
      throw refused(Problem::denied, 403);
    } catch (...) {
      throw_as_file_error();
    }
  } catch (const storage::FileError& error) {
    EXPECT_EQ(error.fact(), "the fact");
    EXPECT_EQ(error.hint(), "the hint");
  }
}

}  // namespace
}  // namespace wmtp::s3
