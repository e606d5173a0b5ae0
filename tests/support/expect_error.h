// EXPECT_WMTP_ERROR(statement, kind, "part of the message"): the statement throws wmtp::Error of
// that kind and its text holds that part.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wmtp/core/error.h"

#define EXPECT_WMTP_ERROR(statement, error_kind, part)                             \
  do {                                                                             \
    try {                                                                          \
      statement;                                                                   \
      ADD_FAILURE() << "no error; expected one with: " << (part);                  \
    } catch (const ::wmtp::Error& wmtp_error_) {                                   \
      EXPECT_EQ(::wmtp::name_of(wmtp_error_.kind()), ::wmtp::name_of(error_kind)); \
      EXPECT_THAT(wmtp_error_.what(), ::testing::HasSubstr(part));                 \
    }                                                                              \
  } while (false)
