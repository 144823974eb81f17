// EXPECT that a statement throws an error of the project whose message names certain things.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

// The statement throws `type`, and what() contains every given substring.
#define EXPECT_ERROR(statement, type, ...)                                \
  try {                                                                   \
    statement;                                                            \
    ADD_FAILURE() << "expected " #type " from " #statement;               \
  } catch (const type& error) {                                           \
    for (const char* part : {__VA_ARGS__}) {                              \
      EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(part)); \
    }                                                                     \
  }
