// SPDX-License-Identifier: MIT
/* A program that brings its own options. */
#include <coffer/coffer.h>
#include <string.h>

#include "check.h"

const char* coffer_conf_string = "slack:32K,stats:true,shards:3";

int main(int count, char** arguments) {
  char text[64];
  CHECK(count == 3);
  CHECK(coffer_conf(arguments[1], text, sizeof text) > 0);
  if (strcmp(text, arguments[2]) != 0) fprintf(stderr, "%s is %s\n", arguments[1], text);
  CHECK(strcmp(text, arguments[2]) == 0);
  printf("good\n");
  return 0;
}
