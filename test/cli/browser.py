"""A headless Chromium, driven through the pipe of its DevTools: pages, what they say, what they ask for, pointing and typing."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """Path of the browser, or None."""
    for name in (os.environ.get('HEADROOM_CHROMIUM', ''), 'chromium', 'chromium-browser', 'google-chrome'):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.console, self.requests = [], []

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def heard(self, event):
        method, given = event.get('method'), event.get('params', {})
        if method == 'Runtime.consoleAPICalled' and given['type'] in ('error', 'warning', 'assert'):
            self.console.append(' '.join(str(a.get('value', a.get('description'))) for a in given['args']))
        elif method == 'Runtime.exceptionThrown':
            self.console.append(given['exceptionDetails'].get('exception', {}).get('description', 'exception'))
        elif method == 'Log.entryAdded' and given['entry']['level'] == 'error':
            self.console.append(given['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            self.requests.append(given['request']['url'])

    def run(self, script):
        """The value of an expression, or of a promise."""
        answer = self.call('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise AssertionError(answer['exceptionDetails'].get('exception', {}).get('description', script))
        return answer['result'].get('value')

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(f'Boolean({condition})'):
                return True
            time.sleep(0.05)
        return False

    def point(self, x, y, kind='mouseMoved', button='none'):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button=button, buttons=int(button == 'left'),
                  clickCount=int(kind != 'mouseMoved'))

    def drag(self, x0, y0, x1, y1):
        self.point(x0, y0)
        self.point(x0, y0, 'mousePressed', 'left')
        for i in range(1, 6):
            self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x0 + (x1 - x0) * i / 5, y=y0 + (y1 - y0) * i / 5,
                      button='left', buttons=1)
        self.point(x1, y1, 'mouseReleased', 'left')

    def key(self, name, text=''):
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=name, text=text if kind == 'keyDown' else '')

    def screenshot(self, path, full=True):
        size = self.call('Page.getLayoutMetrics')['cssContentSize']
        clip = {'x': 0, 'y': 0, 'width': size['width'], 'height': min(size['height'], 12000), 'scale': 1}
        shot = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=full, **({'clip': clip} if full else {}))
        with open(path, 'wb') as file:
            file.write(base64.b64decode(shot['data']))

    def close(self):
        self.browser.pages.pop(self.session, None)
        self.call('Page.close')


class Browser:
    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix='headroom-browser-')
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        # the browser reads commands from descriptor 3 and writes to 4
        command = [path, '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--no-first-run',
                   '--hide-scrollbars', '--disable-background-networking', '--disable-component-update', '--disable-sync',
                   '--disable-dev-shm-usage', f'--user-data-dir={self.folder}', 'about:blank']
        shell = ['/bin/sh', '-c', f'exec "$@" 3<&{to_read} 4>&{to_write}', 'sh', *command]
        self.process = subprocess.Popen(shell, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, 'HOME': self.folder})
        os.close(to_read)
        os.close(to_write)
        self.pages, self.buffer, self.number = {}, b'', 0

    def message(self, seconds):
        """The next message, or None."""
        end = time.monotonic() + seconds
        while b'\0' not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                return None
            part = os.read(self.read, 1 << 20)
            if not part:
                raise AssertionError('the browser is gone')
            self.buffer += part
        text, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        number = self.number
        message = {'id': number, 'method': method, 'params': parameters, **({'sessionId': session} if session else {})}
        os.write(self.write, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.message(60)
            if answer is None:
                raise AssertionError(f'{method}: no answer')
            if answer.get('id') == number:
                if 'error' in answer:
                    raise AssertionError(f'{method}: {answer["error"]}')
                return answer['result']
            page = self.pages.get(answer.get('sessionId'))
            if page:
                page.heard(answer)

    def open(self, path, width=1280, height=900, dark=False, mobile=False, media=''):
        """A page from a file, with nothing that the network could give."""
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        page = self.pages[session] = Page(self, session)
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            page.call(f'{domain}.enable')
        page.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        page.call('Emulation.setEmulatedMedia', media=media,
                  features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        page.requests.clear()
        page.call('Page.navigate', url='file://' + os.path.abspath(path))
        page.wait('document.readyState === "complete" && window.report && report.ready')
        return page

    def close(self):
        try:
            self.call('Browser.close')
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)
