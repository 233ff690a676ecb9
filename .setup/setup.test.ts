import { expect, test } from 'bun:test'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import packageJson from '../package.json'
import pinned from './bun-integrity.json'
import { packagesOf } from './setup.mjs'

test('the pinned hashes belong to the Bun version of this checkout', () => {
  expect(pinned.version).toBe(packageJson.devDependencies['bun-types'])
})

test('every supported platform has a pinned hash of Bun', () => {
  const names = ['linux', 'darwin'].flatMap((platform) =>
    ['x64', 'arm64'].flatMap((arch) => packagesOf(platform, arch)),
  )
  expect(Object.keys(pinned.packages).sort()).toEqual(names.sort())
  for (const integrity of Object.values(pinned.packages)) expect(integrity).toMatch(/^sha512-[\w+/]{86}==$/)
})

test('a forged Bun from a registry is refused and not installed', async () => {
  const [name = ''] = packagesOf(process.platform, process.arch)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-setup-'))
  const forged = await forgedPackage(folder, name)
  const tarball = `/${name}/-/forged.tgz`
  using registry = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ url }) {
      if (new URL(url).pathname === tarball) return new Response(forged)
      const dist = {
        tarball: new URL(tarball, url).href,
        integrity: `sha512-${new Bun.CryptoHasher('sha512').update(forged).digest('base64')}`,
      }
      return Response.json({
        name,
        'dist-tags': { latest: pinned.version },
        versions: { [pinned.version]: { name, version: pinned.version, dist } },
      })
    },
  })
  try {
    const checkout = join(folder, 'checkout')
    for (const file of ['.setup/setup.mjs', '.setup/bun-integrity.json', 'package.json', 'bun.lock'])
      await cp(join(import.meta.dirname, '..', file), join(checkout, file))
    const setUp = Bun.spawn(['node', '.setup/setup.mjs'], {
      cwd: checkout,
      env: {
        PATH: process.env.PATH,
        HOME: folder,
        npm_config_registry: registry.url.href,
        npm_config_cache: join(folder, 'cache'),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const said = await new Response(setUp.stderr).text()
    expect(said).toContain('is not the one whose hash is pinned in .setup/bun-integrity.json')
    expect(await setUp.exited).toBe(1)
    expect(await Bun.file(join(checkout, '.bun', 'node_modules', name, 'bin', 'bun')).exists()).toBe(false)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}, 120_000)

/** Creates a package that pretends to be Bun. */
async function forgedPackage(folder: string, name: string) {
  const bin = join(folder, 'package', 'bin')
  await mkdir(bin, { recursive: true })
  await writeFile(join(folder, 'package', 'package.json'), JSON.stringify({ name, version: pinned.version }))
  await writeFile(join(bin, 'bun'), `#!/bin/sh\necho ${pinned.version}\n`, { mode: 0o755 })
  const packed = join(folder, 'forged.tgz')
  await Bun.spawn(['tar', '-czf', packed, '-C', folder, 'package']).exited
  return await Bun.file(packed).bytes()
}
