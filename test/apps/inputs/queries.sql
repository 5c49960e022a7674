-- SPDX-License-Identifier: MIT
-- Two million rows in memory, so that every page of the database is a block of the allocator, then queries that
-- sort, group, join and build strings. Each has an ORDER BY, or one row only.
PRAGMA journal_mode = MEMORY;
PRAGMA cache_size = -400000;
PRAGMA temp_store = MEMORY;
PRAGMA threads = 2;

CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, weight INTEGER, name TEXT);
INSERT INTO item
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)
  SELECT i, i * 7919 % 1009, (i * 48271) % 2147483647 % 100000, 'item ' || (i * 7919 % 100003) FROM n;
SELECT count(*), sum(kind), sum(weight), sum(length(name)) FROM item;

CREATE INDEX item_kind ON item (kind, weight);
CREATE INDEX item_name ON item (name);
SELECT kind, count(*), min(weight), max(weight), sum(weight) FROM item GROUP BY kind ORDER BY sum(weight), kind LIMIT 20;
SELECT name, count(*) FROM item WHERE name LIKE 'item 99%' GROUP BY name ORDER BY name LIMIT 50;
SELECT a.id, b.id FROM item a JOIN item b ON b.name = a.name AND b.id > a.id WHERE a.kind = 5 ORDER BY 1, 2 LIMIT 40;

-- A sorter that does not fit its cache, a window, an aggregate that grows one long string, and JSON.
SELECT sum(place * weight % 65537) FROM
  (SELECT weight, row_number() OVER (ORDER BY weight, name, id) AS place FROM item WHERE id % 5 = 0);
SELECT length(group_concat(name, ';')) FROM item WHERE id <= 500000;
SELECT sum(length(json)) FROM
  (SELECT json_group_array(json_object('id', id, 'name', name, 'weights', json_array(kind, weight))) AS json
   FROM item WHERE id <= 200000 GROUP BY kind);
SELECT sum(length(hex(zeroblob(id % 5000)))) FROM item WHERE id <= 20000;

BEGIN;
UPDATE item SET name = name || ' of kind ' || kind, weight = weight + 1 WHERE id % 10 = 0;
SELECT count(DISTINCT name) FROM item;
ROLLBACK;
DELETE FROM item WHERE kind % 8 = 0;
SELECT count(*), sum(weight), count(DISTINCT name) FROM item;
DROP INDEX item_name;
VACUUM;
PRAGMA integrity_check;
